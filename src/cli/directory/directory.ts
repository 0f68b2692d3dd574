/** `berth directory show`, `uploads` and `delete`. */
import { Command } from 'commander';
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { columns } from '../../foundation/base/terminal.ts';
import type { Invocation } from '../invocation.ts';
import { integer, since } from '../options.ts';
import { type DirectoryAnswer, summaryOf } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, type Named, named, onDirectory, show } from './named-directory.ts';

export function showCommand(invocation: Invocation): Command {
  return onDirectory(new Command('show').description('Show a directory'))
    .addHelpText('after', '\nExamples:\n  berth directory show acme-corp\n  berth directory show cust-42 --json')
    .action(async (text: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      await showAll(invocation, options, { ask, directory });
    });
}

interface Access {
  readonly suspended: boolean;
  readonly expires_at: string | null;
  readonly allowed_networks: readonly string[] | null;
}

interface Quota {
  readonly max_bytes: number | null;
  readonly used_bytes: number;
}

/** Shows the directory as it is now; for people, also its access and quota. Adds the warnings of the commands before. */
export async function showAll(
  invocation: Invocation,
  options: CommonOptions,
  { ask, directory }: Named,
  warnings: readonly string[] = [],
): Promise<void> {
  const answer = { ...(await ask<DirectoryAnswer>('GET', '')), warnings };
  if (options.json) return show(invocation, options, answer, () => []);
  const { suspended, expires_at, allowed_networks } = (await ask<Access>('GET', '/access')).data;
  const { max_bytes, used_bytes } = (await ask<Quota>('GET', '/quota')).data;
  const more = { suspended, expires_at, allowed_networks, max_bytes, used_bytes, account: directory.account_id };
  return show(invocation, options, answer, (fields) => summaryOf({ ...fields, ...more }));
}

interface UploadOptions extends CommonOptions {
  readonly limit: number;
  readonly prefix?: string;
  readonly since?: Micros;
}

interface Upload {
  readonly id: string;
  readonly filename: string;
  readonly size_bytes: number;
  readonly uploaded_at: string;
}

export function uploadsCommand(invocation: Invocation): Command {
  return onDirectory(new Command('uploads').description('List the files in a directory, newest first'))
    .option('--limit <count>', 'how many to list', integer(1, 1000), 50)
    .option('--prefix <text>', 'only files whose name begins with it')
    .option('--since <time>', 'only files since then: 30m, 12h, 7d, or a time such as 2026-11-20T08:00Z', (text) =>
      since(text, invocation.clock.now()),
    )
    .addHelpText('after', '\nExample:\n  berth directory uploads acme-corp --since 1d --prefix in/')
    .action(async (text: string, options: UploadOptions) => {
      const { ask } = await named(invocation, text, options);
      const query = new URLSearchParams({ limit: String(options.limit) });
      if (options.prefix !== undefined) query.set('prefix', options.prefix);
      if (options.since !== undefined) query.set('since', formatMicros(options.since));
      show(invocation, options, await ask<Upload[]>('GET', `/uploads?${query.toString()}`), (uploads) =>
        columns()([
          ['ID', 'UPLOADED', 'BYTES', 'FILE'],
          ...uploads.map(({ id, filename, size_bytes, uploaded_at }) => [id, uploaded_at, size_bytes, filename]),
        ]),
      );
    });
}

export function deleteCommand(invocation: Invocation): Command {
  return irrevocable(
    onDirectory(new Command('delete').description('Delete a directory, its files and its credentials, for good')),
  )
    .addHelpText('after', '\nExample:\n  berth directory delete acme-corp-x7k2m9qa --yes')
    .action(async (text: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      const { name, sftp_username: username, id } = directory;
      await confirm(
        invocation,
        options,
        `Delete ${JSON.stringify(name)} (${username}) with all of its files for good?`,
      );
      await ask('DELETE', '');
      invocation.print(options.json ? 'null' : `Deleted ${username} (${id})`);
    });
}

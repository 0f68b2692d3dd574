/** `berth directory …`, which does what the API does, through the service that runs here; and its show, set, uploads and delete. */
import { Command, InvalidArgumentError } from 'commander';
import { formatMicros, type Micros, parseMicros } from '../../foundation/base/clock.ts';
import { columns } from '../../foundation/base/text.ts';
import type { Invocation } from '../invocation.ts';
import { integer, moment, since } from '../options.ts';
import { authModeOption, type DirectoryAnswer, type FieldOptions, fieldsOf, summaryOf, withFields } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, type Named, named, onDirectory, show } from './named-directory.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { directoriesCommand } from '../directories.ts';
import { keysCommand, passwordCommand, resumeCommand, suspendCommand } from './access.ts';
import { createCommand } from './create.ts';
import { linkCommand } from './link.ts';
import { replayCommand, webhookCommand } from './webhook.ts';

function showCommand(invocation: Invocation): Command {
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
async function showAll(
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

function uploadsCommand(invocation: Invocation): Command {
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

function deleteCommand(invocation: Invocation): Command {
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

const HELP = `
An empty --description or --external-id removes the present one. Some options need several requests of the API, sent one
after the other: if one is refused, those before it stay in force.

Examples:
  berth directory set acme-corp --max-connections 20
  berth directory set acme-corp --auth-mode public_key --allow-network 192.0.2.0/24 --allow-network 2001:db8::/32
  berth directory set acme-corp --expires 2026-12-31T23:00Z --quota 10000000000`;

interface Options extends CommonOptions, FieldOptions {
  readonly name?: string;
  readonly authMode?: string;
  readonly expires?: string;
  readonly allowNetwork?: readonly string[];
  readonly quota?: number | 'none';
}

function setCommand(invocation: Invocation): Command {
  return withFields(onDirectory(new Command('set').description('Change a directory')))
    .option('--name <name>', 'a new name; slug and username stay')
    .addOption(authModeOption())
    .option('--expires <time>', 'when it is suspended automatically; never removes the expiry', expiry)
    .option('--allow-network <cidr...>', 'allow logins from these networks only; everywhere removes the limit')
    .option('--quota <bytes>', 'how much it may store; none removes the limit', quota)
    .addHelpText('after', HELP)
    .action(async (text: string, options: Options) => {
      const found = await named(invocation, text, options);
      const warnings: string[] = [];
      const all = [...requests(options)];
      if (all.length === 0) throw new OperatorError('there is nothing to set: see berth directory set --help');
      for (const [method, path, body] of all) warnings.push(...(await found.ask(method, path, body)).warnings);
      await showAll(invocation, options, found, warnings);
    });
}

function* requests({ name, authMode, expires, allowNetwork, quota: bytes, ...rest }: Options) {
  const basics = { ...(name === undefined ? {} : { name }), ...fieldsOf(rest) };
  if (Object.keys(basics).length > 0) yield ['PATCH', '', { directory: basics }] as const;
  if (authMode !== undefined) yield ['PATCH', '', { directory: { auth_mode: authMode } }] as const;
  const access = {
    ...(expires === undefined ? {} : { expires_at: expires === 'never' ? null : expires }),
    ...(allowNetwork && { allowed_networks: allowNetwork.filter((network) => network !== 'everywhere') }),
  };
  if (Object.keys(access).length > 0) yield ['PATCH', '/access', access] as const;
  if (bytes !== undefined) yield ['PUT', '/quota', { max_bytes: bytes === 'none' ? null : bytes }] as const;
}

/** The time in the API's format, with seconds. */
function expiry(text: string): string {
  if (text === 'never' || parseMicros(text) !== undefined) return text;
  return formatMicros(moment(text, 'a time such as 2026-12-31T23:00Z, or never'));
}

/** Returns `none` instead of null, since commander takes null for an option without a value. */
function quota(text: string): number | 'none' {
  if (text === 'none') return text;
  const bytes = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError('It must be a number of bytes, or none.');
}

const DIRECTORY_HELP = `
Name a directory by its id, SFTP username, external id, slug or name. If several match, they are listed.
All commands except list go to the service that runs here, and follow the rules of the API. berth audit shows who ran them.
Commands that cannot be undone ask at the terminal, or need --yes.

Examples:
  berth directory create 'Acme Corp' --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --webhook https://example.com/hook
  berth directory show acme-corp
  berth directory suspend acme-corp
  berth directory delete acme-corp-x7k2m9qa --yes`;

export function directoryCommand(invocation: Invocation): Command {
  return new Command('directory')
    .description('Directories: create, show, change and delete them')
    .addHelpText('after', DIRECTORY_HELP)
    .addCommand(createCommand(invocation))
    .addCommand(showCommand(invocation))
    .addCommand(directoriesCommand(invocation, 'list'))
    .addCommand(setCommand(invocation))
    .addCommand(suspendCommand(invocation))
    .addCommand(resumeCommand(invocation))
    .addCommand(deleteCommand(invocation))
    .addCommand(passwordCommand(invocation))
    .addCommand(keysCommand(invocation))
    .addCommand(webhookCommand(invocation))
    .addCommand(linkCommand(invocation))
    .addCommand(uploadsCommand(invocation))
    .addCommand(replayCommand(invocation));
}

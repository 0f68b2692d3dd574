/** `berth directory link …`: makes, lists and revokes links for people without an SFTP client. */
import { Command, InvalidArgumentError } from 'commander';
import { formatMicros, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Invocation } from '../invocation.ts';
import { columns } from '../../foundation/base/text.ts';
import { moment } from '../options.ts';
import { table } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, named, onDirectory, show } from './named-directory.ts';

interface LinkOptions extends CommonOptions {
  readonly until: Micros;
  readonly once?: true;
  readonly maxBytes?: number;
}

interface Link {
  readonly url: string;
  readonly expires_at: string;
  readonly once: boolean;
}

interface ListedLink extends Omit<Link, 'url'> {
  readonly id: string;
  readonly for: string;
  readonly path: string;
}

const HELP = `
Anyone with the link can use it, without a key or an SFTP client. This is the only time it is printed. An upload link to a
folder, whose path ends with /, takes files of any name and never replaces one.

Examples:
  berth directory link download acme-corp out/report.pdf --until 7d
  berth directory link upload acme-corp in/scan.pdf --until 1d --max-bytes 50000000 --once
  berth directory link upload acme-corp in/ --until 30d --max-bytes 50000000
  berth directory link list acme-corp
  berth directory link revoke acme-corp 5c5e2b1c-56a5-4f4d-8d27-3b1f9f3a8d10 --yes
  berth directory link revoke acme-corp --yes`;

const SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3600, d: 86_400 };

export function linkCommand(invocation: Invocation): Command {
  const command = new Command('link')
    .description('Links to download or upload files without an SFTP client')
    .addHelpText('after', HELP);
  const make = (kind: 'download' | 'upload', description: string): Command =>
    onDirectory(command.command(kind).description(description))
      .argument(
        '<path>',
        kind === 'upload'
          ? 'the path of the file, or of a folder: in/ takes any name, / is the top folder'
          : 'the path of the file in the directory',
      )
      .requiredOption(
        '--until <time>',
        'how long it works: 30m, 12h, 7d, or a time such as 2026-12-20T08:00Z',
        (text) => until(text, invocation.clock.now()),
      )
      .option('--once', 'the link works once')
      .action(async (text: string, path: string, { until: at, once, ...options }: LinkOptions) => {
        const { ask } = await named(invocation, text, options);
        const most = kind === 'upload' ? { max_bytes: options.maxBytes } : {};
        const body = { for: kind, path, expires_at: formatMicros(at), once: once === true, ...most };
        show(invocation, options, await ask<Link>('POST', '/links', body), ({ url, expires_at }) =>
          table({ url, expires_at, once: once ? 'yes' : 'no' }),
        );
      });

  make('download', 'Make a link to download the file at a path').addHelpText(
    'after',
    '\nExample:\n  berth directory link download acme-corp out/report.pdf --until 7d',
  );
  make('upload', 'Make a link to a page where a file can be uploaded')
    .requiredOption('--max-bytes <bytes>', 'the largest file that it accepts', bytes)
    .addHelpText(
      'after',
      '\nExample:\n  berth directory link upload acme-corp in/scan.pdf --until 1d --max-bytes 50000000 --once',
    );

  onDirectory(command.command('list').description('List the links that work, newest first'))
    .addHelpText('after', '\nExample:\n  berth directory link list acme-corp')
    .action(async (text: string, options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      show(invocation, options, await ask<ListedLink[]>('GET', '/links?limit=1000'), (links) =>
        columns()([['ID', 'FOR', 'PATH', 'ONCE', 'EXPIRES'], ...links.map(cellsOf)]),
      );
    });

  irrevocable(onDirectory(command.command('revoke').description('Revoke one link, or all links of a directory')))
    .argument('[link]', 'its id, as the list shows it; without it, all links are revoked')
    .addHelpText(
      'after',
      '\nExamples:\n  berth directory link revoke acme-corp 5c5e2b1c-56a5-4f4d-8d27-3b1f9f3a8d10\n  berth directory link revoke acme-corp --yes',
    )
    .action(async (text: string, link: string | undefined, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      if (link !== undefined) {
        await confirm(invocation, options, `Revoke the link ${link} of ${directory.sftp_username}?`);
        const one = await ask('DELETE', `/links/${encodeURIComponent(link)}`);
        show(invocation, options, one, () => [`Revoked the link ${link} of ${directory.sftp_username}`]);
        return;
      }
      await confirm(invocation, options, `Revoke all links of ${directory.sftp_username}?`);
      const answer = await ask('DELETE', '/links');
      show(invocation, options, answer, () => [`Revoked all links of ${directory.sftp_username}`]);
    });
  return command;
}

function cellsOf({ id, for: kind, path, once, expires_at }: ListedLink) {
  return [id, kind, path, once ? 'yes' : 'no', expires_at];
}

function until(text: string, now: Micros): Micros {
  const [, count = '', unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const seconds = SECONDS[unit];
  return seconds === undefined
    ? moment(text, 'a time from now such as 12h, or a time such as 2026-12-20')
    : now + Number(count) * seconds * SECOND;
}

function bytes(text: string): number {
  if (/^\d{1,14}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number of bytes.');
}

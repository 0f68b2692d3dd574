/** `berth directory link …`: makes and revokes links for people without an SFTP client. */
import { Command, InvalidArgumentError } from 'commander';
import { formatMicros, type Micros, SECOND } from '../../base/clock.ts';
import type { Invocation } from '../invocation.ts';
import { moment } from '../options.ts';
import { table } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, named, onDirectory, show } from './which.ts';

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

const HELP = `
Anyone with the link can use it, without a key or an SFTP client. This is the only time it is printed.

Examples:
  berth directory link download acme-corp out/report.pdf --until 7d
  berth directory link upload acme-corp in/scan.pdf --until 1d --max-bytes 50000000 --once
  berth directory link revoke acme-corp --yes`;

const SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3600, d: 86_400 };

export function linkCommand(invocation: Invocation): Command {
  const command = new Command('link')
    .description('Links to download or upload one file without an SFTP client')
    .addHelpText('after', HELP);
  const make = (kind: 'download' | 'upload', description: string): Command =>
    onDirectory(command.command(kind).description(description))
      .argument('<path>', 'the path of the file in the directory')
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

  irrevocable(onDirectory(command.command('revoke').description('Revoke all links of a directory')))
    .addHelpText('after', '\nExample:\n  berth directory link revoke acme-corp --yes')
    .action(async (text: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      await confirm(invocation, options, `Revoke all links of ${directory.sftp_username}?`);
      const answer = await ask('DELETE', '/links');
      show(invocation, options, answer, () => [`Revoked all links of ${directory.sftp_username}`]);
    });
  return command;
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

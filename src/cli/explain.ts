/** `berth explain`: what a support engineer needs to answer a customer. */
import { isIP } from 'node:net';
import { Command, InvalidArgumentError } from 'commander';
import { DAY, type Micros } from '../foundation/base/clock.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { explain, explainAddress, type ExplainedEvent } from '../operating/reports/explain.ts';
import type { Known } from '../operating/reports/named.ts';
import { sshdLogOf } from '../operating/reports/sshd-log-file.ts';
import { escaped, shortTime } from '../foundation/base/text.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { integer, since } from './options.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
Shows logins and refusals with their reasons, transfers, requests that sshd has refused, webhooks with each attempt, and changes with
their authors, in order. A deleted directory's history stays for BERTH_HISTORY_DAYS: name it by its id or username.
Refused logins come from sshd's log (the journal; in a container and in a trial, the folder sshd-log in BERTH_STATE_DIR), which the
service also copies into the database.

Examples:
  berth explain acme-corp-x7k2m9qa --since 2h
  berth explain cust-42 --json
  berth explain --address 203.0.113.9 --since 2h      every login attempt from there, for any name`;

const STYLE: RowStyle<ExplainedEvent> = {
  columns: {
    TIME: ({ at }) => shortTime(at),
    WHAT: ({ kind }) => kind,
    ADDRESS: ({ address }) => address,
    DETAILS: ({ text }) => text,
  },
  json: ({ at, ...event }) => ({ at: fullTime(at), ...event }),
};

interface Options {
  readonly since?: Micros;
  readonly limit: number;
  readonly address?: string;
  readonly json?: true;
}

function ipAddress(text: string): string {
  if (isIP(text) === 0) throw new InvalidArgumentError('It must be an IP address.');
  return text;
}

function headOf(directory: Known | null, otherwise: string): string {
  if (!directory) return otherwise;
  const { sftp_username, id, account_id, name } = directory;
  return `${sftp_username}: ${name ?? 'deleted'} (${id} of account ${account_id})`;
}

export function explainCommand({ config, clock, print }: Invocation): Command {
  return new Command('explain')
    .description("Explain a customer's logins, transfers and webhooks")
    .argument('[directory]', 'its SFTP username, id, external id, slug or name; or a username that somebody tried')
    .option('--address <ip>', 'instead of a directory: login attempts from there, and their results', ipAddress)
    .option(
      '--since <time>',
      'only since then: 30m, 12h, 7d, or a time such as 2026-11-20T08:00Z (default: 1d)',
      (text) => since(text, clock.now()),
    )
    .option('--limit <count>', 'how many to list, newest first', integer(1, 999_999), 1000)
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: Options) => {
      const { since: from = clock.now() - DAY, limit, address, json } = options;
      const span = { since: from, limit };
      if ((name === undefined) === (address === undefined)) {
        throw new OperatorError('give either a directory or --address IP');
      }
      const settings = config();
      const log = sshdLogOf(settings);
      const { directory, events, notes } = await (name === undefined
        ? explainAddress(log, address ?? '', span)
        : withDatabase(settings, (database) => explain({ ...settings, database, log, now: clock.now() }, name, span)));
      if (json) return print(JSON.stringify({ directory, events: events.map(STYLE.json), notes }));
      print(
        escaped(
          headOf(
            directory,
            name === undefined
              ? `From ${address}, in sshd's log:`
              : `${name}: no directory has this name. In sshd's log:`,
          ),
        ),
      );
      printRows(events, STYLE, { print, json });
      for (const note of notes) print(`Note: ${escaped(note)}`);
    });
}

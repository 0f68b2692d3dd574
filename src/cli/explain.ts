/** `berth explain`: the one command of a support engineer. */
import { Command } from 'commander';
import { DAY, type Micros } from '../clock.ts';
import { explain } from '../reports/explain.ts';
import type { Happening } from '../reports/timeline.ts';
import { escaped, shortTime } from '../terminal.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { integer, since } from './options.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
Logins and refusals with their reasons, uploads and other transfers, webhooks with each attempt, and changes with who made
them, in order of time. Of a deleted directory the history is there for BERTH_HISTORY_DAYS: name it by its id or username.
Refused logins come from sshd's log in the journal.

Examples:
  berth explain acme-corp-x7k2m9qa --since 2h
  berth explain cust-42 --json`;

const STYLE: RowStyle<Happening> = {
  columns: {
    TIME: ({ at }) => shortTime(at),
    WHAT: ({ kind }) => kind,
    ADDRESS: ({ address }) => address,
    DETAILS: ({ text }) => text,
  },
  json: ({ at, ...happening }) => ({ at: fullTime(at), ...happening }),
};

interface Options {
  readonly since?: Micros;
  readonly limit: number;
  readonly json?: true;
}

export function explainCommand({ config, clock, print }: Invocation): Command {
  return new Command('explain')
    .description('Tell what happened to a customer')
    .argument('<directory>', 'its SFTP username, id, external id, slug or name')
    .option(
      '--since <time>',
      'from then on: 30m, 12h, 7d, or a time such as 2026-11-20T08:00Z; a day if left out',
      (text) => since(text, clock.now()),
    )
    .option('--limit <count>', 'at most so many, the newest', integer(1, 999_999), 1000)
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (name: string, { since: from = clock.now() - DAY, limit, json }: Options) => {
      const span = { since: from, limit };
      const { directory, happenings, notes } = await withDatabase(config(), (database) =>
        explain(database, name, span),
      );
      if (json) return print(JSON.stringify({ directory, events: happenings.map(STYLE.json), notes }));
      const { sftp_username, id, account_id, name: title } = directory;
      print(escaped(`${sftp_username}: ${title ?? 'deleted'} (${id} of account ${account_id})`));
      printRows(happenings, STYLE, { print, json });
      for (const note of notes) print(`Note: ${escaped(note)}`);
    });
}

/** `berth sessions`: who is connected now, by what the logins registered; berth need not run. */
import { Command } from 'commander';
import type { Micros } from '../clock.ts';
import { type DirectoryRow, directoryOf } from '../reports/directories.ts';
import type { Session } from '../sftp/sessions.ts';
import { follow, type Stopped } from './follow.ts';
import { type Print, shownTime } from './output.ts';
import { columns, fullTime, printRows, type RowStyle } from './rows.ts';
import type { WithDatabase } from './with-database.ts';

const HELP = `
PID is the sshd process of the connection: ending it ends the session.

Examples:
  berth sessions
  berth sessions --directory acme-corp-x7k2m9qa
  berth sessions --follow --json         each session that is there, begins or ends, a line each`;

type Happening = 'live' | 'opened' | 'closed';

interface Row extends Session {
  readonly is: Happening;
  readonly directory: DirectoryRow | undefined;
}

const LIST: RowStyle<Row> = {
  headings: ['USERNAME', 'ADDRESS', 'SINCE', 'PID', 'EXTERNAL ID', 'NAME'],
  cells: ({ username, address, since, pid, directory }) => [
    username,
    address,
    shownTime(since),
    pid,
    directory?.external_id ?? null,
    directory?.name ?? null,
  ],
  json: ({ username, address, since, pid, directory }) => ({
    username,
    address,
    since: fullTime(since),
    pid,
    directory_id: directory?.id ?? null,
    external_id: directory?.external_id ?? null,
    account_id: directory?.account_id ?? null,
    name: directory?.name ?? null,
  }),
};

const FOLLOWED: RowStyle<Row> = {
  headings: ['SESSION', ...LIST.headings],
  cells: (row) => [row.is, ...LIST.cells(row)],
  json: (row) => ({ session: row.is, ...LIST.json(row) }),
};

interface Options {
  readonly directory?: string;
  readonly account?: string;
  readonly follow?: true;
  readonly json?: true;
}

export function sessionsCommand(deps: {
  withDatabase: WithDatabase;
  /** The live sessions. */
  sessions: () => Promise<Session[]>;
  print: Print;
  stopped: Stopped;
}): Command {
  const { withDatabase, sessions, print, stopped } = deps;
  return new Command('sessions')
    .description('live SFTP sessions')
    .option('--directory <directory>', 'only of this one, by its id or SFTP username')
    .option('--account <id>', 'only those of this account')
    .option('--follow', 'go on with those that begin and end, until Ctrl-C')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async ({ directory: wanted, account, json, ...options }: Options) => {
      const end = options.follow && stopped();
      await withDatabase(async (database) => {
        const isWanted = ({ username, directory }: Row): boolean =>
          (wanted === undefined || username === wanted || directory?.id === wanted) &&
          (account === undefined || directory?.account_id === account);
        const look = async (): Promise<Row[]> => {
          const rows = (await sessions()).map(async (session) => {
            return { ...session, is: 'live' as const, directory: await directoryOf(database, session.username) };
          });
          return (await Promise.all(rows)).filter(isWanted);
        };
        if (!end) return printRows(await look(), LIST, { print, as: json ? 'json' : 'table' });

        const write = columns(print);
        if (!json) write([FOLLOWED.headings]);
        let before: Map<string, Row> | undefined;
        await follow(end, async () => {
          const now = new Map((await look()).map((row) => [keyOf(row), row]));
          const closed = [...(before ?? [])].filter(([key]) => !now.has(key)).map(([, row]) => as('closed', row));
          const opened = [...now]
            .filter(([key]) => !before?.has(key))
            .map(([, row]) => as(before ? 'opened' : 'live', row));
          const rows = [...closed, ...opened];
          if (json) printRows(rows, FOLLOWED, { print, as: 'lines' });
          else write(rows.map(FOLLOWED.cells));
          before = now;
        });
      });
    });
}

function as(is: Happening, row: Row): Row {
  return { ...row, is };
}

function keyOf({ pid, since }: { pid: number; since: Micros }): string {
  return `${pid} ${since}`;
}

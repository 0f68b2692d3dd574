/** `berth sessions`: who is connected now, by what the logins registered; berth need not run. */
import { Command } from 'commander';
import type { Database } from '../db/open.ts';
import { type DirectoryRow, directoryOf } from '../reports/queries.ts';
import { pathsOf } from '../sftp/paths.ts';
import { allSessions, type SeenSession } from '../sftp/sessions.ts';
import { shortTime } from '../terminal.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { followRows, fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
PID is the sshd process of the connection: ending it ends the session.

Examples:
  berth sessions
  berth sessions --directory acme-corp-x7k2m9qa
  berth sessions --follow --json         one line for each session that is live, begins or ends`;

interface Row extends SeenSession {
  readonly state: 'live' | 'opened' | 'closed';
  readonly directory: DirectoryRow | undefined;
}

const STYLE: RowStyle<Row> = {
  columns: {
    USERNAME: (row) => row.username,
    ADDRESS: (row) => row.address,
    SINCE: (row) => shortTime(row.since),
    PID: (row) => row.pid,
    'EXTERNAL ID': ({ directory }) => directory?.external_id ?? null,
    NAME: ({ directory }) => directory?.name ?? null,
  },
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
  columns: { SESSION: (row) => row.state, ...STYLE.columns },
  json: (row) => ({ session: row.state, ...STYLE.json(row) }),
};

interface Options {
  readonly directory?: string;
  readonly account?: string;
  readonly follow?: true;
  readonly json?: true;
}

export function sessionsCommand({ config, print, catchSignals }: Invocation): Command {
  return new Command('sessions')
    .description('List live SFTP sessions')
    .option('--directory <directory>', 'only of this one, by its id or SFTP username')
    .option('--account <id>', 'only those of this account')
    .option('--follow', 'go on with those that begin and end, until Ctrl-C')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { follow, json } = options;
      const stop = follow && catchSignals();
      const settings = config();
      await withDatabase(settings, async (database) => {
        const live = async (): Promise<Row[]> => liveRows(database, allSessions(pathsOf(settings)), options);
        if (stop) await followRows(changes(live), FOLLOWED, { print, json, stop });
        else printRows(await live(), STYLE, { print, json });
      });
    });
}

async function liveRows(database: Database, sessions: readonly SeenSession[], options: Options): Promise<Row[]> {
  const rows = await Promise.all(
    sessions.map(async (session): Promise<Row> => {
      return { ...session, state: 'live', directory: await directoryOf(database, session.username) };
    }),
  );
  return rows.filter(
    ({ username, directory }) =>
      (options.directory === undefined || [username, directory?.id].includes(options.directory)) &&
      (options.account === undefined || directory?.account_id === options.account),
  );
}

/** First the live sessions, then at each call those that began or ended since the one before. */
function changes(live: () => Promise<Row[]>): () => Promise<Row[]> {
  let before: ReadonlyMap<string, Row> | undefined;
  return async () => {
    const rows = await live();
    const now = new Map(rows.map((row) => [`${row.pid} ${row.since}`, row]));
    const earlier = before;
    before = now;
    if (earlier === undefined) return rows;
    const closed = [...earlier].filter(([key]) => !now.has(key)).map(([, row]): Row => ({ ...row, state: 'closed' }));
    const opened = [...now].filter(([key]) => !earlier.has(key)).map(([, row]): Row => ({ ...row, state: 'opened' }));
    return [...closed, ...opened];
  };
}

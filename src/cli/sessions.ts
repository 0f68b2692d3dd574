/** `berth sessions`: lists live sessions from the files that logins leave. berth need not run. */
import { Command } from 'commander';
import type { Database } from '../foundation/db/open.ts';
import { pathsOf } from '../machine/sftp/paths.ts';
import { allSessions, type Session } from '../machine/sftp/sessions.ts';
import { shortTime } from '../foundation/base/text.ts';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { followRows, fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
PID is the sshd process of the connection: ending it ends the session.

Examples:
  berth sessions
  berth sessions --directory acme-corp-x7k2m9qa
  berth sessions --follow --json         a line for each live session, and when one begins or ends`;

interface Row extends Session {
  readonly state: 'live' | 'opened' | 'closed';
  /** Null while its directory is unknown to the database. */
  readonly directory_id: string | null;
  readonly external_id: string | null;
  readonly account_id: string | null;
  readonly name: string | null;
}

const STYLE: RowStyle<Row> = {
  columns: {
    USERNAME: (row) => row.username,
    ADDRESS: (row) => row.address,
    SINCE: (row) => shortTime(row.since),
    PID: (row) => row.pid,
    'EXTERNAL ID': (row) => row.external_id,
    NAME: (row) => row.name,
  },
  json: ({ state: _state, since, ...row }) => ({ ...row, since: fullTime(since) }),
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
    .option('--directory <directory>', 'only this one, by its id or SFTP username')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--follow', 'keep printing sessions as they begin and end, until Ctrl-C')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(async ({ account: name, ...given }: Options) => {
      const { follow, json } = given;
      const stop = follow && catchSignals();
      const settings = config();
      await withDatabase(settings, async (database) => {
        const account = name === undefined ? undefined : await accountNamed(database.reads, name);
        const options = { ...given, ...(account !== undefined && { account }) };
        const read = async (): Promise<Row[]> => liveRows(database, await allSessions(pathsOf(settings)), options);
        const live = await read();
        if (stop) await followRows(live, changes(live, read), FOLLOWED, { print, json, stop });
        else printRows(live, STYLE, { print, json });
      });
    });
}

async function liveRows(database: Database, sessions: readonly Session[], options: Options): Promise<Row[]> {
  const rows = sessions.map(async (session): Promise<Row> => {
    const {
      id = null,
      external_id = null,
      account_id = null,
      name = null,
    } = (await database.reads
      .selectFrom('directories')
      .select(['id', 'external_id', 'account_id', 'name'])
      .where('sftp_username', '=', session.username)
      .executeTakeFirst()) ?? {};
    return { ...session, state: 'live', directory_id: id, external_id, account_id, name };
  });
  return (await Promise.all(rows)).filter(
    ({ username, directory_id, account_id }) =>
      (options.directory === undefined || [username, directory_id].includes(options.directory)) &&
      (options.account === undefined || account_id === options.account),
  );
}

/** Returns a function that returns the sessions that have ended or begun since its last call. */
function changes(live: readonly Row[], read: () => Promise<Row[]>): () => Promise<Row[]> {
  const byKey = (rows: readonly Row[]) => new Map(rows.map((row) => [`${row.pid} ${row.since}`, row]));
  let before = byKey(live);
  return async () => {
    const now = byKey(await read());
    const closed = [...before].filter(([key]) => !now.has(key)).map(([, row]): Row => ({ ...row, state: 'closed' }));
    const opened = [...now].filter(([key]) => !before.has(key)).map(([, row]): Row => ({ ...row, state: 'opened' }));
    before = now;
    return [...closed, ...opened];
  };
}

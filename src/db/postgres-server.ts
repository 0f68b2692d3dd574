/** What can be wrong with a PostgreSQL server, said in one line that never holds a password. */
import { type Kysely, sql } from 'kysely';
import { errorCode, OperatorError } from '../errors.ts';
import { DatabaseAway, isAway, textOf } from './away.ts';
import { isPostgres } from './dialect.ts';
import { shownPlace } from './place.ts';

/** The oldest that is supported: Debian 12's. */
const OLDEST_SERVER = 15;

/** The user is not the owner. */
const OWN = 'the user has to own the database: alter database NAME owner to USER';

const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'the user or the password in the URL is wrong',
  '28000': 'see pg_hba.conf on the server',
  '3D000': 'make it there: create database NAME owner USER',
  '42501': OWN,
  '3F000': OWN,
};

/** What an error of the driver or the server means to an operator. Other errors are of `berth` itself. */
export function explained(error: unknown, place: string): OperatorError {
  if (error instanceof OperatorError) return error;
  const where = shownPlace(place);
  if (error instanceof DatabaseAway || isAway(error)) {
    const said = textOf(error instanceof DatabaseAway ? error.cause : error);
    return new OperatorError(`the database ${where} cannot be reached: ${said}`, { cause: error });
  }
  const [code, said] = [errorCode(error) ?? '', textOf(error)];
  const remedy = REMEDIES[code] ?? (isOfTls(code, said) ? 'see sslmode and sslrootcert in the URL' : undefined);
  const line = /client password must be/.test(said) ? 'the server asks for a password, and the URL has none' : said;
  const problem = remedy === undefined ? line : `${line} (${remedy})`;
  return new OperatorError(`the database ${where} cannot be used: ${problem}`, { cause: error });
}

function isOfTls(code: string, said: string): boolean {
  return /CERT|TLS|SSL|SELF_SIGNED|LEAF_SIGNATURE/.test(code) || /SSL|certificate/i.test(said);
}

export interface ServerState {
  /** As `server_version` says it. */
  readonly version: string;
  readonly major: number;
  readonly encoding: string;
  /** A standby takes no writes. */
  readonly is_standby: boolean;
  /** What it says is committed may be lost with its power. */
  readonly is_forgetful: boolean;
  /** It is another machine, and what is said to it can be read on the way. */
  readonly is_exposed: boolean;
}

/** @throws the driver's error when it cannot be asked. */
export async function serverState<T>(db: Kysely<T>): Promise<ServerState> {
  const { rows } = await sql<ServerState>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int / 10000 as major,
      current_setting('server_encoding') as encoding, pg_is_in_recovery() as is_standby,
      current_setting('synchronous_commit') = 'off' as is_forgetful,
      coalesce(not inet_server_addr() <<= inet '127.0.0.0/8' and inet_server_addr() <> inet '::1'
        and not (select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_exposed`.execute(db);
  const [state] = rows;
  if (state === undefined) throw new Error('the server says nothing of itself');
  return state;
}

/**
 * How far PostgreSQL's standbys are behind, in bytes of its log, by their names; none with SQLite. The server tells it only
 * to members of pg_monitor.
 */
export async function standbyLags<T>(db: Kysely<T>): Promise<Record<string, number>> {
  if (!isPostgres(db)) return {};
  const { rows } = await sql<{ name: string; bytes: number }>`
    select application_name as name, max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) as bytes
    from pg_stat_replication where replay_lsn is not null and not pg_is_in_recovery() group by name`.execute(db);
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, bytes]));
}

/** @throws {OperatorError} when berth cannot work with this server. */
export async function refuseUnsuitable<T>(db: Kysely<T>, place: string): Promise<void> {
  const { version, major, encoding, is_standby: isStandby } = await serverState(db);
  const where = shownPlace(place);
  if (major < OLDEST_SERVER) {
    throw new OperatorError(`the database ${where} is PostgreSQL ${version}: berth needs ${OLDEST_SERVER} or newer`);
  }
  if (encoding !== 'UTF8') {
    throw new OperatorError(`the database ${where} is encoded in ${encoding}: make one with encoding UTF8`);
  }
  if (isStandby) throw new OperatorError(`the database ${where} is a standby, which takes no writes`);
}

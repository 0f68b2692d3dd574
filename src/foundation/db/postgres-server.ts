/** Explains problems with a PostgreSQL server in one line, which never contains a password. */
import { type Kysely, sql } from 'kysely';
import { errorCode, OperatorError } from '../base/errors.ts';
import { DatabaseUnavailable, isAway, textOf } from './away.ts';
import { isPostgres } from './dialect.ts';
import { shownPlace } from '../base/database-place.ts';

/** The oldest version that is supported, which is Debian 12's. */
const OLDEST_SERVER = 15;

/** The remedy when the user does not own the database. */
const OWN = 'the user has to own the database: alter database NAME owner to USER';

const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'the user or the password in the URL is wrong',
  '28000': 'see pg_hba.conf on the server',
  '3D000': 'create it there: create database NAME owner USER',
  '42501': OWN,
  '3F000': OWN,
};

/** Explains an error of the driver or the server to an operator. Other errors are berth's own. */
export function explained(error: unknown, place: string): OperatorError {
  if (error instanceof OperatorError) return error;
  const where = shownPlace(place);
  if (error instanceof DatabaseUnavailable || isAway(error)) {
    const reason = textOf(error instanceof DatabaseUnavailable ? error.cause : error);
    return new OperatorError(`the database ${where} cannot be reached: ${reason}`, { cause: error });
  }
  const code = errorCode(error) ?? '';
  const message = textOf(error);
  const remedy = REMEDIES[code] ?? (isOfTls(code, message) ? 'see sslmode and sslrootcert in the URL' : undefined);
  const line = /client password must be/.test(message)
    ? 'the server requires a password, and the URL has none'
    : message;
  const problem = remedy === undefined ? line : `${line} (${remedy})`;
  return new OperatorError(`the database ${where} cannot be used: ${problem}`, { cause: error });
}

function isOfTls(code: string, message: string): boolean {
  return /CERT|TLS|SSL|SELF_SIGNED|LEAF_SIGNATURE/.test(code) || /SSL|certificate/i.test(message);
}

export interface ServerState {
  /** The text of `server_version`. */
  readonly version: string;
  readonly major: number;
  readonly encoding: string;
  /** The server is a standby, which accepts no writes. */
  readonly is_standby: boolean;
  /** The server's commits may be lost in a power cut. */
  readonly is_forgetful: boolean;
  /** The server is on another machine, and the connection is not encrypted. */
  readonly is_exposed: boolean;
}

/** @throws the driver's error when the server cannot be queried. */
export async function serverState<T>(db: Kysely<T>): Promise<ServerState> {
  const { rows } = await sql<ServerState>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int / 10000 as major,
      current_setting('server_encoding') as encoding, pg_is_in_recovery() as is_standby,
      current_setting('synchronous_commit') = 'off' as is_forgetful,
      coalesce(not inet_server_addr() <<= inet '127.0.0.0/8' and inet_server_addr() <> inet '::1'
        and not (select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_exposed`.execute(db);
  const [state] = rows;
  if (state === undefined) throw new Error('the server returned no state');
  return state;
}

/**
 * How far PostgreSQL's standbys are behind, in bytes of its log, by their names; none with SQLite. The server reports
 * this only to members of pg_monitor.
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
    throw new OperatorError(`the database ${where} is encoded in ${encoding}: create one with encoding UTF8`);
  }
  if (isStandby) throw new OperatorError(`the database ${where} is a standby, which accepts no writes`);
}

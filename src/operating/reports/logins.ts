/** Successful and refused logins to a directory: from their rows, and from sshd's log. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { anyContains, ownedBy, type Owner } from '../../foundation/db/lists.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { errorMessage } from '../../foundation/base/errors.ts';
import {
  APART,
  type Attempts,
  attemptsFrom,
  attemptsIn,
  attemptsOfUnknown,
  type LoginAttempt,
  type LogLine,
  type SshdLog,
} from './sshd-log.ts';

interface AttemptSpan {
  readonly kind?: LoginAttempt['kind'];
  readonly since?: Micros | undefined;
  /** Up to and including this moment. */
  readonly until?: Micros;
  /** A part of the address, or of how somebody logged in, or why not. */
  readonly search?: string | undefined;
  readonly limit: number;
}

/**
 * The attempts to log in to an account's directories, or to one of them, newest first.
 * @param unwritten those from sshd's log that were not in a row yet when the log was read; some may be by now.
 */
export async function attemptsOf<Unwritten extends LoginAttempt>(
  reads: Kysely<Tables>,
  owner: Owner,
  unwritten: readonly Unwritten[],
  { kind, since = 0, until = Number.MAX_SAFE_INTEGER, search, limit }: AttemptSpan,
) {
  let query = reads
    .selectFrom('logins as l')
    .leftJoin('directories as d', 'd.id', 'l.directory_id')
    .select(['l.at', 'l.kind', 'l.address', 'l.text', 'l.directory_id', 'd.sftp_username as username'])
    .where(ownedBy(owner, 'l'))
    .where((eb) => eb.between('l.at', since, until));
  if (kind !== undefined) query = query.where('l.kind', '=', kind);
  if (search !== undefined) query = query.where(anyContains(reads, ['l.address', 'l.text'], search));
  const rows = await query.orderBy('l.at', 'desc').orderBy('l.id', 'desc').limit(limit).execute();
  const nameOf = ({ at, address, text }: LoginAttempt): string => `${at} ${address} ${text}`;
  const written = new Set(rows.map(nameOf));
  const wanted = search?.toLowerCase() ?? '';
  const isWanted = ({ at, kind: of, address, text }: LoginAttempt): boolean =>
    at >= since && at <= until && (kind ?? of) === of && `${address} ${text}`.toLowerCase().includes(wanted);
  const others = unwritten.filter((attempt) => isWanted(attempt) && !written.has(nameOf(attempt)));
  return [...rows, ...others].toSorted((a, b) => b.at - a.at).slice(0, limit);
}

/** What sshd's log has about logins. */
export interface Logins {
  readonly logins: readonly LoginAttempt[];
  /** Why there are none: sshd has no log, or it could not be read. */
  readonly missing?: 'no log' | Error;
  /** The number of connections that are left out, since they forged lines in sshd's log. */
  readonly forged: number;
}

export function loginsOf(log: SshdLog, username: string, since: Micros): Promise<Logins> {
  return loginsIn(log, username, since, (lines) => attemptsIn(lines, username));
}

/** The attempts from an address. */
export function loginsFrom(log: SshdLog, address: string, since: Micros): Promise<Logins> {
  return loginsIn(log, address, since, (lines) => attemptsFrom(lines, address));
}

/** The attempts with a username that no directory has. */
export function loginsOfUnknown(log: SshdLog, name: string, since: Micros): Promise<Logins> {
  return loginsIn(log, name, since, (lines) => attemptsOfUnknown(lines, name));
}

async function loginsIn(
  log: SshdLog,
  text: string,
  since: Micros,
  read: (lines: readonly LogLine[]) => Attempts,
): Promise<Logins> {
  try {
    const lines = await log.linesNaming(text, since - APART);
    if (lines === undefined) return { logins: [], missing: 'no log', forged: 0 };
    const { attempts, forged } = read(lines);
    return { logins: attempts.filter(({ at }) => at >= since), forged };
  } catch (error) {
    return { logins: [], missing: error instanceof Error ? error : new Error(errorMessage(error)), forged: 0 };
  }
}

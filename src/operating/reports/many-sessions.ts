/**
 * Notes that clients have asked for more SFTP sessions in one connection than sshd allows. sshd's line names no client, so the note is
 * shown for a directory that had that many sessions open from one address. sshd writes the line as the directory's user, so only the
 * journal has it: the socket of scripts/lib/sshd-log is for root alone.
 */
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { SshdLog } from './sshd-log.ts';

const REFUSAL = 'no more sessions';
/** In syslog, sshd prefixes an error with its level. */
const REFUSED = new RegExp(`^(?:error: )?${REFUSAL}$`);

/** `MaxSessions` in openssh/sshd_config. */
const MOST = 10;

/** How long sshd may take to begin sessions that it has already counted. */
const BEGINNING: Micros = 5 * SECOND;

/** How many rows are read, newest first. */
const ROWS = 10_000;

export async function manySessionsNotes(
  { reads }: Database,
  log: SshdLog,
  { directory, since }: { readonly directory: string; readonly since: Micros },
): Promise<string[]> {
  // If the log cannot be read, explain says so for refused logins.
  const lines = (await log.linesNaming(REFUSAL, since).catch(() => [])) ?? [];
  const refusals = lines.filter(({ at, message }) => at >= since && REFUSED.test(message));
  if (refusals.length === 0) return [];
  const rows = await reads
    .selectFrom('transfers')
    .select(['at', 'event', 'address', 'session_pid as pid'])
    .where('directory_id', '=', directory)
    .where('event', 'in', ['session-opened', 'session-closed'])
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(ROWS)
    .execute();
  const steps = [
    ...rows.map(({ at, event, ...session }) => ({
      at: event === 'session-opened' ? at - BEGINNING : at,
      event,
      session,
    })),
    ...refusals.map(({ at }) => ({ at, event: 'refused' as const, session: undefined })),
  ].toSorted((a, b) => a.at - b.at);
  const open = new Map<string | null, Set<number | null>>();
  let count = 0;
  for (const { event, session } of steps) {
    const own = session && (open.get(session.address) ?? new Set());
    if (!own) count += [...open.values()].some(({ size }) => size >= MOST) ? 1 : 0;
    else if (event === 'session-opened') open.set(session.address, own.add(session.pid));
    else own.delete(session.pid);
  }
  if (count === 0) return [];
  return [
    `sshd has refused a session ${count === 1 ? 'once' : `${count} times`} while this directory had ${MOST} sessions open: a connection has at most ${MOST}. Ask the customer to transfer fewer files at once, or to open further connections.`,
  ];
}

/** The notes of `berth explain`: why something did not work and what to do, what is not announced, and what is missing here. */
import { displayName, pathOf } from '../../arrivals/uploads/file-path.ts';
import { heldFiles, type Settling } from '../../arrivals/checks/held.ts';
import { partialFiles, reasonOf } from '../../arrivals/files/partial.ts';
import { formatMicros, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import { remedyOf } from '../../rules/history/refusals.ts';
import { sentenceOf } from '../../rules/history/sentences.ts';
import type { ActivityEntry } from './activity.ts';
import { loginChecks, remedyFor } from './login-rules.ts';
import type { Logins } from './logins.ts';
import type { LoginAttempt, SshdLog } from './sshd-log.ts';

/** How many files are listed that are partial, or that are not announced yet. */
const LISTED_FILES = 20;

/** The settings that let nobody log in now, and those that refuse some. */
export async function obstacleNotes({ reads }: Database, id: string, now: Micros): Promise<string[]> {
  const directory = await reads
    .selectFrom('directories')
    .select(['suspended', 'expires_at', 'allowed_networks', 'auth_mode'])
    .select((eb) =>
      eb
        .selectFrom('public_keys')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .whereRef('public_keys.directory_id', '=', 'directories.id')
        .as('keys'),
    )
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) return [];
  const checks = loginChecks(directory, { keys: directory.keys ?? 0, now });
  return checks
    .filter(({ lets }) => lets !== 'all')
    .map(({ lets, text, remedy = '' }) =>
      `${lets === 'nobody' ? 'nobody can log in' : 'some logins are refused'}: ${text}. ${remedy}`.trim(),
    );
}

/** What to do about the last refusal, unless there was a login since. */
export function refusalNotes([last]: readonly LoginAttempt[]): string[] {
  const remedy = last?.kind === 'refused' ? remedyFor(last.text) : undefined;
  return remedy === undefined ? [] : [`the last login was refused (${last?.text}). ${remedy}`];
}

/** What to do about the requests that sshd has refused (newest first): for each remedy, the newest request that needs it. */
export function refusedRequestNotes(entries: readonly ActivityEntry[]): string[] {
  const newest = new Map<string, string>();
  for (const entry of entries) {
    const remedy = entry.refusal && remedyOf(entry.refusal);
    if (remedy !== undefined && !newest.has(remedy))
      newest.set(remedy, `${sentenceOf({ ...entry, address: null })}. ${remedy}`);
  }
  return [...newest.values()];
}

/** Notes on uploads whose names may still change. */
export async function settlingNotes({ reads }: Database, directory: string, settling: Settling): Promise<string[]> {
  const files = await heldFiles(reads, { directories: [directory], limit: LISTED_FILES }, settling);
  const waiting = files.filter(({ state }) => state === 'settling');
  return waiting.map((file) => `${JSON.stringify(displayName(file.path))} (${file.size_bytes} bytes) ${file.reason}`);
}

/** Notes on files that are on the disk but are not uploads, with the reasons. */
export async function partialNotes({ reads }: Database, directory: string): Promise<string[]> {
  const files = await partialFiles(reads, { directories: [directory], limit: LISTED_FILES + 1 });
  const notes = files.slice(0, LISTED_FILES).map((file) => {
    const shown = JSON.stringify(displayName(pathOf(file.path)));
    const what = `${shown} (${file.size_bytes} bytes, ${formatMicros(file.since)}) is partial: ${reasonOf(file)}`;
    return `${what}; berth partial announce ${file.id}, or delete ${file.id}`;
  });
  return files.length > LISTED_FILES
    ? [...notes, `more files are partial: berth partial list --directory ${directory}`]
    : notes;
}

const REFUSAL = 'no more sessions';
/** In syslog, sshd prefixes an error with its level. */
const REFUSED = new RegExp(`^(?:error: )?${REFUSAL}$`);

/** `MaxSessions` in openssh/sshd_config. */
const MOST = 10;

/** How long sshd may take to begin sessions that it has already counted. */
const BEGINNING: Micros = 5 * SECOND;

/** How many rows are read, newest first. */
const ROWS = 10_000;

/**
 * Notes that clients have asked for more SFTP sessions in one connection than sshd allows. sshd's line names no client, so the note is
 * shown for a directory that had that many sessions open from one address. sshd writes the line as the directory's user, so only the
 * journal has it: the socket of scripts/lib/sshd-log is for root alone.
 */
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

/** A note that sshd's log begins later than what is shown, for example because the journal is full or not kept over a reboot. */
export async function beginningNotes(log: SshdLog, since: Micros): Promise<string[]> {
  const beginning = await log.beginning();
  if (beginning === undefined || beginning <= since) return [];
  return [`refused logins before ${formatMicros(beginning)} are missing: sshd's log here begins then`];
}

/** A note on missing logins, with the reason. @param written until when they are rows. */
export function missingNotes({ missing, forged }: Logins, written?: Micros): string[] {
  const which = `refused logins${written === undefined ? '' : ` after ${formatMicros(written)}`} are missing`;
  if (missing === 'no log') return [`${which}: sshd's log is neither in the journal nor in a file here`];
  if (missing) return [`${which}: ${missing.message}`];
  return forged === 0 ? [] : [`left out: ${forged} connections that forged lines in sshd's log`];
}

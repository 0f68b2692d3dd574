/** `berth explain`: everything that is known about one customer's directory, in one line each. */
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { loginChecks, remedyFor } from './login-rules.ts';
import { attemptsOf, type Logins, loginsFrom, loginsOf, loginsOfUnknown } from './logins.ts';
import { displayName, pathOf } from '../../arrivals/uploads/file-path.ts';
import { heldFiles, type Settling } from '../../arrivals/checks/held.ts';
import { partialFiles, reasonOf } from '../../arrivals/files/partial.ts';
import { directoryKnown, type Known } from './named.ts';
import type { LoginAttempt, SshdLog } from './sshd-log.ts';
import { manySessionsNotes } from './many-sessions.ts';
import { refusedRequestNotes } from './refused-requests.ts';
import { type Happening, inOrder, type Span, timeline } from './timeline.ts';

/** How many files are listed that are partial, or that are not announced yet. */
const LISTED_FILES = 20;

export interface Explained {
  /** Null when there is only sshd's log to show: for an address, or a name that no directory has. */
  readonly directory: Known | null;
  readonly happenings: readonly Happening[];
  /** Notes on missing entries, with the reasons. */
  readonly notes: readonly string[];
}

interface Sources {
  readonly database: Database;
  readonly log: SshdLog;
  /** The node whose log that is. */
  readonly node: string;
  readonly now: Micros;
  readonly settleSeconds: number;
}

/** @throws {OperatorError} when no directory has that name, or several have it. */
export async function explain(
  { database, log, node, now, settleSeconds }: Sources,
  name: string,
  { since, limit }: Omit<Span, 'directory'>,
): Promise<Explained> {
  const directory = await directoryKnown(database, name);
  if (!directory) return explainUnknown(log, name, { since, limit });
  const { id, sftp_username: username } = directory;
  // A deleted directory has no rows of its logins.
  const written = directory.name === null ? undefined : await writtenUntil(database, node);
  const found = await loginsOf(log, username, Math.max(since, written ?? 0));
  const logins = await attemptsOf(database.reads, id, found.logins, { since, limit: limit + 1 });
  const all = inOrder([...(await timeline(database, { directory: id, since, limit: limit + 1 })), ...logins]);
  const notes = all.length > limit ? [`older entries are left out: --limit ${limit}`] : [];
  const settling = await settlingNotes(database, id, { settleSeconds, now });
  const partial = await partialNotes(database, id);
  const why = [
    ...(await obstacleNotes(database, id, now)),
    ...refusalNotes(logins),
    ...refusedRequestNotes(all.slice(-limit)),
    ...(await manySessionsNotes(database, log, { directory: id, since })),
  ];
  const early = written === undefined ? await beginningNotes(log, Math.max(since, all[0]?.at ?? Infinity)) : [];
  return {
    directory,
    happenings: all.slice(-limit),
    notes: [...why, ...notes, ...settling, ...partial, ...early, ...noteOf(found, written)],
  };
}

/** Until when the attempts in the node's log are rows; undefined if none are. */
async function writtenUntil({ reads }: Database, node: string): Promise<Micros | undefined> {
  const row = await reads.selectFrom('login_log').select('read_until').where('node', '=', node).executeTakeFirst();
  return row?.read_until;
}

/** The settings that let nobody log in now, and those that refuse some. */
async function obstacleNotes({ reads }: Database, id: string, now: Micros): Promise<string[]> {
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
function refusalNotes([last]: readonly LoginAttempt[]): string[] {
  const remedy = last?.kind === 'refused' ? remedyFor(last.text) : undefined;
  return remedy === undefined ? [] : [`the last login was refused (${last?.text}). ${remedy}`];
}

/** Notes on uploads whose names may still change. */
async function settlingNotes({ reads }: Database, directory: string, settling: Settling): Promise<string[]> {
  const files = await heldFiles(reads, { directories: [directory], limit: LISTED_FILES }, settling);
  const waiting = files.filter(({ state }) => state === 'settling');
  return waiting.map((file) => `${JSON.stringify(displayName(file.path))} (${file.size_bytes} bytes) ${file.reason}`);
}

/** Notes on files that are on the disk but are not uploads, with the reasons. */
async function partialNotes({ reads }: Database, directory: string): Promise<string[]> {
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

/** Explains a client's address from sshd's log, under any username. */
export async function explainAddress(
  log: SshdLog,
  address: string,
  { since, limit }: Omit<Span, 'directory'>,
): Promise<Explained> {
  const early = await beginningNotes(log, since);
  const { notes, ...explained } = fromLog(await loginsFrom(log, address, since), limit);
  return { ...explained, notes: [...early, ...notes] };
}

/** @throws {OperatorError} when sshd's log does not know the name either. */
async function explainUnknown(
  log: SshdLog,
  name: string,
  { since, limit }: Omit<Span, 'directory'>,
): Promise<Explained> {
  const found = await loginsOfUnknown(log, name, since);
  if (found.logins.length > 0) return fromLog(found, limit);
  throw new OperatorError(`berth knows no directory ${JSON.stringify(name)}: see berth directories`);
}

function fromLog(found: Logins, limit: number): Explained {
  const notes = found.logins.length > limit ? [`older entries are left out: --limit ${limit}`] : [];
  const why = refusalNotes(found.logins);
  return { directory: null, happenings: found.logins.slice(-limit), notes: [...why, ...notes, ...noteOf(found)] };
}

/** A note that sshd's log begins later than what is shown, for example because the journal is full or not kept over a reboot. */
async function beginningNotes(log: SshdLog, since: Micros): Promise<string[]> {
  const beginning = await log.beginning();
  if (beginning === undefined || beginning <= since) return [];
  return [`refused logins before ${formatMicros(beginning)} are missing: sshd's log here begins then`];
}

/** A note on missing logins, with the reason. */
function noteOf({ missing, forged }: Logins, written?: Micros): string[] {
  const which = `refused logins${written === undefined ? '' : ` after ${formatMicros(written)}`} are missing`;
  if (missing === 'no log') return [`${which}: sshd's log is neither in the journal nor in a file here`];
  if (missing) return [`${which}: ${missing.message}`];
  return forged === 0 ? [] : [`left out: ${forged} connections that forged lines in sshd's log`];
}

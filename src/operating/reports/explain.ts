/** `berth explain`: everything that is known about one customer's directory, in one line each. */
import type { Kysely } from 'kysely';
import { formatMicros, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { seconds, sentenceOf } from '../../rules/history/sentences.ts';
import { type ActivityEntry, activityPage, loginEntry } from './activity.ts';
import { attemptsOf, type Logins, loginsFrom, loginsOf, loginsOfUnknown } from './logins.ts';
import { directoryKnown, type Known } from './named.ts';
import type { LoginAttempt, SshdLog } from './sshd-log.ts';
import { displayName, pathOf } from '../../arrivals/uploads/file-path.ts';
import { heldFiles, type Settling } from '../../arrivals/checks/held.ts';
import { partialFiles, reasonOf } from '../../arrivals/files/partial.ts';
import { remedyOf } from '../../rules/history/refusals.ts';
import { loginChecks, remedyFor } from './login-rules.ts';

export interface ExplainedEvent {
  readonly at: Micros;
  readonly kind: ActivityEntry['kind'] | 'webhook';
  /** The client's address, if there is one. */
  readonly address: string | null;
  readonly text: string;
}

export interface Explained {
  /** Null when there is only sshd's log to show: for an address, or a name that no directory has. */
  readonly directory: Known | null;
  /** Oldest first. */
  readonly events: readonly ExplainedEvent[];
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

interface Span {
  readonly since: Micros;
  /** How many entries, the newest. */
  readonly limit: number;
}

/** @throws {OperatorError} when no directory has that name, or several have it. */
export async function explain(
  { database, log, node, now, settleSeconds }: Sources,
  name: string,
  { since, limit }: Span,
): Promise<Explained> {
  const { reads } = database;
  const directory = await directoryKnown(database, name);
  if (!directory) return explainUnknown(log, name, { since, limit });
  const { id, sftp_username: username, account_id: accountId } = directory;
  // A deleted directory has no rows of its logins.
  const written = directory.name === null ? undefined : await writtenUntil(database, node);
  const found = await loginsOf(log, username, Math.max(since, written ?? 0));
  const unwritten = found.logins.map((login) => ({ ...login, directory_id: id, username }));
  const owner = { accountId, directoryId: id };
  const from = { at: Number.MAX_SAFE_INTEGER, skip: 0 };
  const { entries } = await activityPage(reads, { ...owner, unwritten, since, from, limit: limit + 1 });
  const webhooks = await webhooksOf(reads, id, { since, limit: limit + 1 });
  const all = [...entries.map(eventOf), ...webhooks].toSorted((a, b) => a.at - b.at);
  const why = [
    ...(await obstacleNotes(database, id, now)),
    ...refusalNotes(await attemptsOf(reads, owner, unwritten, { since, limit: 1 })),
    ...refusedRequestNotes(entries.slice(0, limit)),
    ...(await manySessionsNotes(database, log, { directory: id, since })),
  ];
  const settling = await settlingNotes(database, id, { settleSeconds, now });
  const partial = await partialNotes(database, id);
  const early = written === undefined ? await beginningNotes(log, Math.max(since, all[0]?.at ?? Infinity)) : [];
  return {
    directory,
    events: all.slice(-limit),
    notes: [...why, ...leftOut(all, limit), ...settling, ...partial, ...early, ...missingNotes(found, written)],
  };
}

const leftOut = (all: readonly unknown[], limit: number): string[] =>
  all.length > limit ? [`older entries are left out: --limit ${limit}`] : [];

/** Until when the attempts in the node's log are rows; undefined if none are. */
async function writtenUntil({ reads }: Database, node: string): Promise<Micros | undefined> {
  const row = await reads.selectFrom('login_log').select('read_until').where('node', '=', node).executeTakeFirst();
  return row?.read_until;
}

/** The address has a column of its own. */
function eventOf(entry: ActivityEntry): ExplainedEvent {
  const { at, kind, address, bytes, request } = entry;
  const size = typeof bytes === 'number' ? ` (${bytes.toLocaleString('en')} bytes)` : '';
  const sentence = sentenceOf({ ...entry, address: null }, size);
  return { at, kind, address, text: request ? `${sentence} (request ${request.id})` : sentence };
}

/** Each attempt, and deliveries that are due or have failed for good. */
async function webhooksOf(
  reads: Kysely<Tables>,
  directoryId: string,
  { since, limit }: Span,
): Promise<ExplainedEvent[]> {
  const attempts = await reads
    .selectFrom('attempts as a')
    .innerJoin('deliveries as d', 'd.id', 'a.delivery_id')
    .select(['d.id', 'd.account_id', 'd.destination', 'd.body'])
    .select(['a.number', 'a.started_at', 'a.finished_at', 'a.status', 'a.error', 'a.latency_us'])
    .where('d.directory_id', '=', directoryId)
    .where('a.started_at', '>=', since)
    .orderBy('a.started_at', 'desc')
    .limit(limit)
    .execute();
  const ends = await reads
    .selectFrom('deliveries')
    .select(['id', 'account_id', 'destination', 'body', 'state', 'attempts', 'inserted_at', 'due_at', 'finished_at'])
    .where('directory_id', '=', directoryId)
    .where((eb) => eb.or([eb('inserted_at', '>=', since), eb('finished_at', '>=', since)]))
    .where('state', 'in', ['queued', 'waiting', 'failed'])
    .orderBy('inserted_at', 'desc')
    .limit(limit)
    .execute();
  const webhook = (at: Micros, text: string) => ({ at, kind: 'webhook', address: null, text }) as const;
  return [
    ...attempts.map((row) => {
      const outcome = row.finished_at === null ? 'not answered yet' : (row.error ?? `answered ${row.status}`);
      const took = row.latency_us === null ? '' : ` after ${seconds(row.latency_us)}`;
      return webhook(row.started_at, `${aboutOf(row)}: attempt ${row.number}, ${outcome}${took}`);
    }),
    ...ends.map((row) => {
      const { state, inserted_at, due_at, finished_at, attempts: begun } = row;
      if (state === 'failed') return webhook(finished_at ?? inserted_at, `${aboutOf(row)}: failed`);
      return webhook(due_at ?? inserted_at, `${aboutOf(row)}: attempt ${begun + 1} is due`);
    }),
  ];
}

/** What was sent, and the origin of the URL: paths and queries often hold tokens. */
function aboutOf({
  id,
  account_id,
  destination,
  body,
}: Pick<DeliveryRow, 'id' | 'account_id' | 'destination' | 'body'>) {
  const { filename = '', test = false } = JSON.parse(body.toString()) as { filename?: string; test?: boolean };
  return `${test ? 'test' : filename} to ${destination.slice(account_id.length + 1)} (delivery ${id})`;
}

/** Explains a client's address from sshd's log, under any username. */
export async function explainAddress(log: SshdLog, address: string, { since, limit }: Span): Promise<Explained> {
  const early = await beginningNotes(log, since);
  const { notes, ...explained } = fromLog(await loginsFrom(log, address, since), limit);
  return { ...explained, notes: [...early, ...notes] };
}

/** @throws {OperatorError} when sshd's log does not know the name either. */
async function explainUnknown(log: SshdLog, name: string, { since, limit }: Span): Promise<Explained> {
  const found = await loginsOfUnknown(log, name, since);
  if (found.logins.length > 0) return fromLog(found, limit);
  throw new OperatorError(`berth knows no directory ${JSON.stringify(name)}: see berth directories`);
}

function fromLog(found: Logins, limit: number): Explained {
  const { logins } = found;
  const entries = logins.map((login) => loginEntry({ ...login, directory_id: '', username: null }));
  return {
    directory: null,
    events: entries.slice(-limit).map(eventOf),
    notes: [...refusalNotes(logins), ...leftOut(logins, limit), ...missingNotes(found)],
  };
}

// The notes of `berth explain`: why something did not work and what to do, what is not announced, and what is missing
// here.

/** How many files are listed that are partial, or that are not announced yet. */
const LISTED_FILES = 20;

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

/** What to do about the requests that sshd has refused (newest first): for each remedy, the newest request that needs it. */
function refusedRequestNotes(entries: readonly ActivityEntry[]): string[] {
  const newest = new Map<string, string>();
  for (const entry of entries) {
    const remedy = entry.refusal && remedyOf(entry.refusal);
    if (remedy !== undefined && !newest.has(remedy))
      newest.set(remedy, `${sentenceOf({ ...entry, address: null })}. ${remedy}`);
  }
  return [...newest.values()];
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
async function manySessionsNotes(
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
async function beginningNotes(log: SshdLog, since: Micros): Promise<string[]> {
  const beginning = await log.beginning();
  if (beginning === undefined || beginning <= since) return [];
  return [`refused logins before ${formatMicros(beginning)} are missing: sshd's log here begins then`];
}

/** A note on missing logins, with the reason. @param written until when they are rows. */
function missingNotes({ missing, forged }: Logins, written?: Micros): string[] {
  const which = `refused logins${written === undefined ? '' : ` after ${formatMicros(written)}`} are missing`;
  if (missing === 'no log') return [`${which}: sshd's log is neither in the journal nor in a file here`];
  if (missing) return [`${which}: ${missing.message}`];
  return forged === 0 ? [] : [`left out: ${forged} connections that forged lines in sshd's log`];
}

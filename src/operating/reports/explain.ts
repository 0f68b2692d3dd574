/** `berth explain`: everything that is known about one customer's directory, in one line each. */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { seconds, sentenceOf } from '../../rules/history/sentences.ts';
import { type ActivityEntry, activityPage, loginEntry } from './activity.ts';
import {
  beginningNotes,
  manySessionsNotes,
  missingNotes,
  obstacleNotes,
  partialNotes,
  refusalNotes,
  refusedRequestNotes,
  settlingNotes,
} from './explain-notes.ts';
import { attemptsOf, type Logins, loginsFrom, loginsOf, loginsOfUnknown } from './logins.ts';
import { directoryKnown, type Known } from './named.ts';
import type { SshdLog } from './sshd-log.ts';

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

/**
 * A directory's history, newest first and page by page. It has the same entries as `berth explain`, but one line for each
 * webhook. A page reads a page's worth of rows from each history, by index.
 */
import type { Kysely } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DeliveryState, Tables } from '../../foundation/db/schema.ts';
import { attemptsOf } from './logins.ts';
import type { LoginAttempt } from './sshd-log.ts';
import { auditSentence } from '../../rules/history/audit-sentences.ts';
import { type AuditRow, type DeliveryRow, listAudit, listDeliveries, listTransfers } from './queries.ts';
import { type Happening, ofTransfer, partsOf } from './timeline.ts';

/** The topics to which a page can be narrowed. */
export const TOPICS = {
  logins: ['login', 'refused', 'session'],
  files: ['file'],
  webhooks: ['webhook'],
  changes: ['change'],
} as const satisfies Record<string, readonly Happening['kind'][]>;

export type Topic = keyof typeof TOPICS;

/** Where a page begins: at that moment, without the first `skip` entries, which are on the pages before. */
export interface ActivityPlace {
  readonly at: Micros;
  readonly skip: number;
}

export interface ActivityPage {
  readonly happenings: readonly Happening[];
  readonly next: ActivityPlace | undefined;
}

export interface ActivityOptions {
  readonly directoryId: string;
  /** The newest attempts to log in, which are not in a row yet. */
  readonly unwritten: readonly LoginAttempt[];
  readonly topic?: Topic | undefined;
  readonly from: ActivityPlace;
  readonly limit: number;
}

/** How many rows of the transfers one page searches, since their index does not separate sessions from files. */
const MAX_SEARCHED = 1000;

export async function activityPage(
  reads: Kysely<Tables>,
  { directoryId, unwritten, topic, from, limit }: ActivityOptions,
): Promise<ActivityPage> {
  const kinds: ReadonlySet<Happening['kind']> = new Set(topic ? TOPICS[topic] : Object.values(TOPICS).flat());
  const end = from.skip + limit;
  const most = topic === 'logins' || topic === 'files' ? from.skip + MAX_SEARCHED : end + 1;
  const read = (await historyOf(reads, kinds, { directory: directoryId, until: from.at, limit: most })).slice(0, most);
  const known = read.filter(({ kind }) => kinds.has(kind));
  const furthest = read.length < most ? undefined : read.at(-1);
  const since = (known[end - 1] ?? furthest)?.at;
  const logins = kinds.has('login')
    ? await attemptsOf(reads, directoryId, unwritten, { since, until: from.at, limit: end + 1 })
    : [];
  const found = newestFirst([...known, ...logins]);
  const shown = found.slice(0, end);
  const last = found.length > end ? shown.at(-1) : furthest;
  const next = last && { at: last.at, skip: shown.filter(({ at }) => at === last.at).length };
  return { happenings: shown.slice(from.skip), next };
}

/** Newest first. Entries of the same moment are always in the same order. */
async function historyOf(
  reads: Kysely<Tables>,
  kinds: ReadonlySet<Happening['kind']>,
  span: { directory: string; until: Micros; limit: number },
): Promise<Happening[]> {
  const source = { db: reads };
  const transfers = kinds.has('file') || kinds.has('session') ? await listTransfers(source, span) : [];
  const changes = kinds.has('change') ? await listAudit(source, span) : [];
  const webhooks = kinds.has('webhook') ? await listDeliveries(source, { ...span, withTests: true }) : [];
  return newestFirst([
    ...transfers.toReversed().map(ofTransfer),
    ...changes.toReversed().map(ofChange),
    ...webhooks.toReversed().map(ofWebhook),
  ]);
}

function ofChange(row: AuditRow): Happening {
  const { actor, deed } = auditSentence(row);
  return { at: row.at, kind: 'change', address: null, text: `${actor} ${deed}` };
}

function newestFirst(happenings: readonly Happening[]): Happening[] {
  return happenings.toSorted((a, b) => b.at - a.at);
}

const OUTCOMES: Readonly<Record<DeliveryState, string>> = {
  queued: 'is on its way to',
  running: 'is on its way to',
  waiting: 'is on its way to',
  delivered: 'was delivered to',
  failed: 'was not delivered to',
};

function ofWebhook(row: DeliveryRow): Happening {
  const { state, attempts, status, error } = row;
  const { what, to } = partsOf(row);
  const outcome = error ?? (status === null ? 'no response' : `status ${status}`);
  const tries = attempts === 0 ? '' : ` after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}: ${outcome}`;
  return { at: row.inserted_at, kind: 'webhook', address: null, text: `${what} ${OUTCOMES[state]} ${to}${tries}` };
}

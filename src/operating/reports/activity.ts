/**
 * A directory's history, newest first and page by page. It has the same entries as `berth explain`, but one line for each
 * webhook. A page reads a page's worth of rows from each history, by index. If nothing follows sshd's log, it reads that log
 * for the time that the page covers.
 */
import type { Kysely } from 'kysely';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import type { DeliveryState, Tables } from '../../foundation/db/schema.ts';
import type { LoginLog } from './login-log.ts';
import { type Logins, loginsOf } from './logins.ts';
import type { LogSpan, SshdLog } from './sshd-log.ts';
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
  /** Why sshd's log contributes no logins. */
  readonly missing: Logins['missing'];
}

export interface ActivityOptions {
  readonly directory: { readonly id: string; readonly sftp_username: string };
  readonly topic?: Topic | undefined;
  readonly from: ActivityPlace;
  readonly limit: number;
}

/** How many rows of the transfers one page searches, since their index does not separate sessions from files. */
const MAX_SEARCHED = 1000;

/** How far sshd's log is searched when no other entry limits the page, and how long that may take. */
const LOG_SPAN = 30 * DAY;
const LOG_TIMEOUT_MS = 3000;
/** The most simultaneous readings of the log, and the most lines about one login. */
const MAX_READINGS = 2;
const LINES_A_LOGIN = 5;
/** How long before a missing log is searched for again. */
const MISSING_LOG_MS = 60_000;

export type Activity = (options: ActivityOptions) => Promise<ActivityPage>;

export interface ActivitySources {
  readonly reads: Kysely<Tables>;
  readonly log: SshdLog;
  readonly loginLog?: Pick<LoginLog, 'recent'>;
}

export function createActivity({ reads, log, loginLog }: ActivitySources): Activity {
  let readings = 0;
  let searchAgainAt = 0;

  /** Each reading of the journal starts a process or two; one of a file reads up to 16 MiB. */
  async function fromLog(username: string, span: LogSpan): Promise<Logins> {
    if (performance.now() < searchAgainAt) return { logins: [], missing: 'no log', forged: 0 };
    if (readings >= MAX_READINGS)
      return { logins: [], missing: new Error('the log is being read for others'), forged: 0 };
    readings += 1;
    try {
      const found = await loginsOf(log, username, span);
      if (found.missing === 'no log') searchAgainAt = performance.now() + MISSING_LOG_MS;
      return found;
    } finally {
      readings -= 1;
    }
  }

  async function loginsIn(directory: ActivityOptions['directory'], span: Required<LogSpan>): Promise<Logins> {
    const recent = loginLog?.recent(directory.sftp_username);
    if (!recent) return fromLog(directory.sftp_username, span);
    const rows = await reads
      .selectFrom('logins')
      .select(['at', 'kind', 'address', 'text'])
      .where('directory_id', '=', directory.id)
      .where('at', '>=', span.since)
      .where('at', '<=', Math.min(span.until, recent.since - 1))
      .orderBy('at', 'desc')
      .limit(span.limit)
      .execute();
    const unwritten = recent.attempts.filter(({ at }) => at >= span.since && at <= span.until);
    return { logins: [...rows, ...unwritten], forged: 0 };
  }

  return async ({ directory, topic, from, limit }) => {
    const kinds: ReadonlySet<Happening['kind']> = new Set(topic ? TOPICS[topic] : Object.values(TOPICS).flat());
    const end = from.skip + limit;
    const most = topic === 'logins' || topic === 'files' ? from.skip + MAX_SEARCHED : end + 1;
    const span = { directory: directory.id, until: from.at, limit: most };
    const read = (await historyOf(reads, kinds, span)).slice(0, most);
    const known = read.filter(({ kind }) => kinds.has(kind));
    const furthest = read.length < most ? undefined : read.at(-1);
    const { logins, missing } = kinds.has('login')
      ? await loginsIn(directory, {
          since: (known[end - 1] ?? furthest)?.at ?? from.at - LOG_SPAN,
          until: from.at,
          limit: end * LINES_A_LOGIN,
          timeoutMs: LOG_TIMEOUT_MS,
        })
      : { logins: [], missing: undefined };
    const found = newestFirst([...known, ...logins]);
    const shown = found.slice(0, end);
    const last = found.length > end ? shown.at(-1) : furthest;
    const next = last && { at: last.at, skip: shown.filter(({ at }) => at === last.at).length };
    return { happenings: shown.slice(from.skip), next, missing };
  };
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

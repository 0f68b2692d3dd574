/**
 * The history of one directory in order: sessions, transfers, webhooks with each attempt, and changes with their authors.
 * Everything except the webhooks outlives the directory.
 */
import type { Micros } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { TransferEvent } from '../../foundation/db/schema.ts';
import { ACTIONS, actorInWords, changesInWords, changesOf } from '../../rules/history/audit-in-words.ts';
import { type AuditRow, listAudit, listTransfers, type TransferRow } from './queries.ts';

export interface Happening {
  readonly at: Micros;
  readonly kind: 'change' | 'login' | 'refused' | 'session' | 'file' | 'webhook';
  /** The client's address, if there is one. */
  readonly address: string | null;
  readonly text: string;
}

export interface Span {
  /** The directory's id. */
  readonly directory: string;
  readonly since: Micros;
  /** How many entries of each kind, newest first. */
  readonly limit: number;
}

/** Oldest first. */
export async function timeline(database: Database, span: Span): Promise<Happening[]> {
  const changes = (await listAudit(database, span)).map(ofChange);
  const transfers = (await listTransfers(database, span)).map(ofTransfer);
  const webhooks = await webhooksOf(database, span);
  return inOrder([...changes, ...transfers, ...webhooks]);
}

export function inOrder(happenings: readonly Happening[]): Happening[] {
  return happenings.toSorted((a, b) => a.at - b.at);
}

function ofChange(row: AuditRow): Happening {
  const { at, action, request_id } = row;
  const fields = action === 'create' ? '' : changesInWords(changesOf(row));
  const what = fields === '' ? '' : `: ${fields}`;
  const text = `${ACTIONS[action]} by ${actorInWords(row)} (request ${request_id})${what}`;
  return { at, kind: 'change', address: null, text };
}

const EVENTS: Readonly<Record<TransferEvent, string>> = {
  'session-opened': 'session begins',
  'session-closed': 'session ends',
  received: 'received, not announced yet',
  rejected: 'rejected',
  uploaded: 'uploaded',
  'upload-dropped': 'upload cut off',
  downloaded: 'downloaded',
  'download-dropped': 'download cut off',
  renamed: 'renamed',
  removed: 'removed',
  refused: 'refused',
};

/** A client of a link may also have asked for a part. */
function byLink(event: TransferEvent): string {
  return `${event === 'download-dropped' ? 'downloaded in part' : EVENTS[event]} by link`;
}

function ofTransfer({ at, event, address, path, from_path, bytes, began_at, reason, via }: TransferRow): Happening {
  const names = from_path === null ? (path ?? '') : `${from_path} -> ${path ?? ''}`;
  const size = bytes === null ? '' : ` (${bytes.toLocaleString('en')} bytes)`;
  const isSession = path === null && event !== 'refused';
  const length = event === 'session-closed' && began_at !== null ? ` after ${seconds(at - began_at)}` : '';
  const kind = isSession ? 'session' : 'file';
  const why = reason === null ? '' : `: ${reason}`;
  const text = isSession
    ? `${EVENTS[event]}${length}`
    : `${via === null ? EVENTS[event] : byLink(event)}${names === '' ? '' : ` ${names}`}${size}${why}`;
  return { at, kind, address, text };
}

/** Each attempt, and deliveries that are due or have failed for good. */
async function webhooksOf({ db }: Database, { directory, since, limit }: Span): Promise<Happening[]> {
  const attempts = await db
    .selectFrom('attempts as a')
    .innerJoin('deliveries as d', 'd.id', 'a.delivery_id')
    .select(['d.id', 'd.account_id', 'd.destination', 'd.body'])
    .select(['a.number', 'a.started_at', 'a.finished_at', 'a.status', 'a.error', 'a.latency_us'])
    .where('d.directory_id', '=', directory)
    .where('a.started_at', '>=', since)
    .orderBy('a.started_at', 'desc')
    .limit(limit)
    .execute();
  const ends = await db
    .selectFrom('deliveries')
    .select(['id', 'account_id', 'destination', 'body', 'state', 'attempts', 'inserted_at', 'due_at', 'finished_at'])
    .where('directory_id', '=', directory)
    .where((eb) => eb.or([eb('inserted_at', '>=', since), eb('finished_at', '>=', since)]))
    .where('state', 'in', ['queued', 'waiting', 'failed'])
    .orderBy('inserted_at', 'desc')
    .limit(limit)
    .execute();
  const webhook = (at: Micros, text: string): Happening => ({ at, kind: 'webhook', address: null, text });
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

interface Sent {
  readonly id: string;
  readonly account_id: string;
  readonly destination: string;
  readonly body: Buffer;
}

function aboutOf(sent: Sent): string {
  const { what, to } = partsOf(sent);
  return `${what} to ${to} (delivery ${sent.id})`;
}

/** What was sent, and the origin of the URL: paths and queries often hold tokens. */
function partsOf({ account_id, destination, body }: Omit<Sent, 'id'>): { what: string; to: string } {
  const { filename = '', test = false } = JSON.parse(body.toString()) as { filename?: string; test?: boolean };
  return { what: test ? 'test' : filename, to: destination.slice(account_id.length + 1) };
}

function seconds(micros: Micros): string {
  return micros < 1e6 ? `${Math.round(micros / 1000)} ms` : `${Math.round(micros / 1e5) / 10} s`;
}

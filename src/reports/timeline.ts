/**
 * What happened to one directory, in order of time, from the history that berth keeps: sessions, transfers, webhooks with
 * each attempt, and changes with who made them. It outlives the directory, but for its webhooks.
 */
import type { Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { TransferEvent } from '../db/schema.ts';
import { type AuditRow, listAudit, listTransfers, type TransferRow } from './queries.ts';

export interface Happening {
  readonly at: Micros;
  readonly kind: 'change' | 'login' | 'refused' | 'session' | 'file' | 'webhook';
  /** The client's, where there is one. */
  readonly address: string | null;
  /** In words. */
  readonly text: string;
}

export interface Span {
  /** The directory's id. */
  readonly directory: string;
  readonly since: Micros;
  /** The newest so many of each kind. */
  readonly limit: number;
}

/** The oldest first. */
export async function timeline(database: Database, span: Span): Promise<Happening[]> {
  const changes = (await listAudit(database, span)).map(ofChange);
  const transfers = (await listTransfers(database, span)).map(ofTransfer);
  const webhooks = await webhooksOf(database, span);
  return inOrder([...changes, ...transfers, ...webhooks]);
}

export function inOrder(happenings: readonly Happening[]): Happening[] {
  return happenings.toSorted((a, b) => a.at - b.at);
}

/** For each changed field its name, with what it was and became where that may be shown. */
export type Changes = Record<string, { readonly from?: unknown; readonly to?: unknown }>;

export function changesInWords(changes: Changes): string {
  const fields = Object.entries(changes).map(([field, { from, to }]) =>
    to === undefined ? field : `${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`,
  );
  return fields.join(', ');
}

const ACTIONS: Readonly<Record<AuditRow['action'], string>> = {
  create: 'directory created',
  'undo-create': 'directory taken back, since it could not be made whole,',
  update: 'changed',
  delete: 'directory deleted',
  'put-file': 'file put',
  'remove-file': 'file removed',
  replay: 'webhooks replayed',
  announce: 'file announced again',
  test: 'webhook tried',
  'create-key': 'API key created',
  'revoke-key': 'API key revoked',
  'create-user': 'user created',
  'update-user': 'user changed',
  'remove-user': 'user removed',
  'update-account': 'account changed',
};

function ofChange({ at, action, key_name, key_id, request_id, changes }: AuditRow): Happening {
  const [, kind, name] = /^(operator|user):(.*)$/.exec(key_id) ?? [];
  const who = kind === undefined ? `key ${key_name ?? key_id}` : `${kind} ${name}`;
  const fields = action === 'create' ? '' : changesInWords(JSON.parse(changes) as Changes);
  const what = fields === '' ? '' : `: ${fields}`;
  return { at, kind: 'change', address: null, text: `${ACTIONS[action]} by ${who} (request ${request_id})${what}` };
}

const EVENTS: Readonly<Record<TransferEvent, string>> = {
  'session-opened': 'session begins',
  'session-closed': 'session ends',
  uploaded: 'uploaded',
  'upload-dropped': 'upload cut off',
  downloaded: 'downloaded',
  'download-dropped': 'download cut off',
  renamed: 'renamed',
  removed: 'removed',
};

function ofTransfer({ at, event, address, path, from_path, bytes, began_at }: TransferRow): Happening {
  const names = from_path === null ? (path ?? '') : `${from_path} -> ${path ?? ''}`;
  const size = bytes === null ? '' : ` (${bytes} bytes)`;
  const isSession = path === null;
  const length = event === 'session-closed' && began_at !== null ? ` after ${seconds(at - began_at)}` : '';
  const kind = isSession ? 'session' : 'file';
  return { at, kind, address, text: isSession ? `${EVENTS[event]}${length}` : `${EVENTS[event]} ${names}${size}` };
}

/** Each attempt, and what is still to come or was given up. */
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
      const said = row.finished_at === null ? 'not answered yet' : (row.error ?? `answered ${row.status}`);
      const took = row.latency_us === null ? '' : ` after ${seconds(row.latency_us)}`;
      return webhook(row.started_at, `${aboutOf(row)}: attempt ${row.number}, ${said}${took}`);
    }),
    ...ends.map((row) => {
      const { state, inserted_at, due_at, finished_at, attempts: begun } = row;
      if (state === 'failed') return webhook(finished_at ?? inserted_at, `${aboutOf(row)}: given up`);
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

/** Of the URL only the origin: paths and queries often hold tokens. */
function aboutOf({ id, account_id, destination, body }: Sent): string {
  const { filename = '' } = JSON.parse(body.toString()) as { filename?: string };
  return `${filename} to ${destination.slice(account_id.length + 1)} (delivery ${id})`;
}

function seconds(micros: Micros): string {
  return micros < 1e6 ? `${Math.round(micros / 1000)} ms` : `${Math.round(micros / 1e5) / 10} s`;
}

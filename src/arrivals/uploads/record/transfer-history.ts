/** Writes the history of transfers: its rows, and a log line for each row. */
import type { Kysely, Transaction } from 'kysely';
import type { Clock, Micros } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, FilesTable, Tables, TransferEvent } from '../../../foundation/db/schema.ts';
import { insertTransfers, isRecorded, type Transfer } from '../../../rules/history/transfers.ts';
import type { Log } from '../../../foundation/base/log.ts';
import {
  announceInOrder,
  EVENT_COLUMNS,
  type EventDirectory,
  type Further,
  type FurtherKind,
  wants,
} from '../../../deliveries/webhooks/further-events.ts';
import { enqueueDue } from '../../../deliveries/webhooks/outbox.ts';
import { displayName } from '../file-path.ts';
import type { Announcement, BySession } from '../story/operations.ts';

/** A row of the history, and its directory for the log line. */
export interface HistoryRow {
  readonly row: Transfer;
  readonly directory: Whose;
}

type Whose = EventDirectory & Pick<DirectoryRow, 'sftp_username'>;

type HistoryEntry = Partial<Omit<Announcement, 'at'>> & {
  readonly event: TransferEvent;
  readonly at: Micros;
  readonly reason?: string | undefined;
};

/** Events that may be recorded already. */
export interface Repeating {
  /**
   * Events up to this time may be recorded already: an earlier process followed their lines, or the answer to their
   * commit was lost.
   */
  readonly inDoubtUntil?: Micros | undefined;
}

/**
 * An event that changes no row of a file. Of these events, only a download is announced, where the directory asks for
 * that.
 */
export interface SessionNote extends HistoryEntry {
  readonly event: 'session-opened' | 'session-closed' | 'downloaded' | 'download-dropped' | 'refused';
  readonly directoryId: string;
  readonly by: BySession;
}

export function historyRow(directory: Whose, entry: HistoryEntry): HistoryRow {
  const { event, at, path, from, bytes, by, openedAt, reason, byLink } = entry;
  const address = (by ?? byLink)?.address ?? '';
  const row = {
    directory_id: directory.id,
    account_id: directory.account_id,
    username: directory.sftp_username,
    address: address === '' ? null : address,
    session_pid: by?.pid ?? null,
    at,
    event,
    path: path === undefined ? null : displayName(path),
    from_path: from === undefined ? null : displayName(from),
    bytes: bytes ?? null,
    began_at: openedAt ?? null,
    reason: reason ?? null,
    via: byLink ? ('link' as const) : null,
  };
  return { row, directory };
}

/**
 * The webhook events for rows of the history, and the fields of those events. They are sent where the directory asks
 * for them.
 */
const ANNOUNCED: Partial<Record<TransferEvent, readonly [FurtherKind, (row: Transfer) => Record<string, unknown>]>> = {
  removed: ['file.deleted', ({ path, bytes }) => ({ filename: path, size_bytes: bytes })],
  renamed: ['file.renamed', ({ path, from_path }) => ({ filename: path, previous_filename: from_path })],
  downloaded: ['file.downloaded', ({ path, bytes }) => ({ filename: path, sent_bytes: bytes })],
  rejected: ['file.rejected', ({ path, bytes, reason }) => ({ filename: path, size_bytes: bytes, reason })],
  'upload-dropped': ['upload.failed', ({ path, bytes }) => ({ filename: path, size_bytes: bytes })],
};

/** The events to announce for rows of the history, where their directory asks for them. Uploads are announced elsewhere. */
export async function furtherIn(tx: Transaction<Tables>, rows: readonly HistoryRow[]): Promise<Further[]> {
  const found: Further[] = [];
  for (const { row, directory } of rows) {
    const [kind, fieldsOf] = ANNOUNCED[row.event] ?? [];
    if (!kind || !fieldsOf || !(await wants(tx, directory, kind))) continue;
    found.push({ directory, event: { kind, at: row.at, fields: fieldsOf(row) } });
  }
  return found;
}

/**
 * Adds rows to the history, and enqueues the events that they announce.
 * @param clock for a transaction that is not the dispatcher's.
 * @returns the destinations of the webhooks, for a transaction that is the dispatcher's.
 */
export async function recordHistory(
  tx: Transaction<Tables>,
  rows: readonly HistoryRow[],
  clock?: Clock,
): Promise<string[]> {
  await insertTransfers(
    tx,
    rows.map(({ row }) => row),
  );
  return announceInOrder(tx, [], await furtherIn(tx, rows), clock && ((_, each) => enqueueDue(tx, each, clock)));
}

/**
 * Filters out events of one directory that are recorded already. Only an earlier process, or an attempt whose answer
 * was lost, can have recorded them.
 */
export async function unrecorded<H extends HistoryEntry>(
  tx: Transaction<Tables>,
  directory: Whose,
  entries: readonly H[],
  { inDoubtUntil: until = -Infinity }: Repeating,
): Promise<readonly H[]> {
  const found: H[] = [];
  for (const each of entries) {
    if (each.at > until || !(await isRecorded(tx, historyRow(directory, each).row))) found.push(each);
  }
  return found;
}

/** The rows of session notes. A deleted directory's sessions end too. */
export async function noteRows(
  tx: Transaction<Tables>,
  notes: readonly SessionNote[],
  repeating: Repeating,
): Promise<HistoryRow[]> {
  if (notes.length === 0) return [];
  const found = await tx
    .selectFrom('directories')
    .select(EVENT_COLUMNS)
    .where('id', 'in', [...new Set(notes.map(({ directoryId }) => directoryId))])
    .execute();
  const directories = new Map(found.map((directory) => [directory.id, directory]));
  const rows: HistoryRow[] = [];
  for (const [id, own] of Map.groupBy(notes, ({ directoryId }) => directoryId)) {
    const directory = directories.get(id);
    const news = directory ? await unrecorded(tx, directory, own, repeating) : [];
    for (const note of news) if (directory) rows.push(historyRow(directory, note));
  }
  return rows;
}

/**
 * Logs rows of the history. Dropped and rejected uploads are logged at `info`, all other events at `debug`, since there
 * can be thousands a second (`berth transfers --follow` shows them too).
 */
export function logHistory(log: Log, rows: readonly HistoryRow[]): void {
  if (!log.isLevelEnabled('info')) return;
  for (const { row, directory } of rows) {
    const level = row.event === 'upload-dropped' || row.event === 'rejected' ? 'info' : 'debug';
    if (!log.isLevelEnabled(level)) continue;
    log[level](
      {
        directory: row.directory_id,
        external_id: directory.external_id,
        username: row.username,
        address: row.address ?? undefined,
        session: row.session_pid ?? undefined,
        path: row.path ?? undefined,
        from: row.from_path ?? undefined,
        bytes: row.bytes ?? undefined,
        reason: row.reason ?? undefined,
      },
      row.event,
    );
  }
}

/** The session or link that sent a file. Empty for a file that was found on the disk, or put there by the API. */
export interface Sender {
  readonly by?: BySession;
  readonly byLink?: { readonly address: string };
  readonly openedAt?: Micros | undefined;
}

/** The events that a file's row gets its `uploaded_at` from. */
const ARRIVALS: readonly TransferEvent[] = ['received', 'uploaded', 'upload-dropped'];

/** Finds in the history who sent the file of a row. */
export async function senderOf(
  db: Kysely<Tables>,
  { directory_id, uploaded_at }: Pick<FilesTable, 'directory_id' | 'uploaded_at'>,
): Promise<Sender> {
  const found = await db
    .selectFrom('transfers')
    .select(['session_pid', 'address', 'began_at', 'via'])
    .where('directory_id', '=', directory_id)
    .where('at', '=', uploaded_at)
    .where('event', 'in', ARRIVALS)
    .executeTakeFirst();
  if (found?.via === 'link') return { byLink: { address: found.address ?? '' } };
  if (!found || found.session_pid === null) return {};
  const by = { pid: found.session_pid, address: found.address ?? '' };
  return { by, openedAt: found.began_at ?? undefined };
}

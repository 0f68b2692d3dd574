/** What goes into the history of transfers: rows, and a line of the log for each. */
import type { Transaction } from 'kysely';
import type { DirectoriesTable, Tables, TransferEvent } from '../../db/schema.ts';
import { insertTransfers, type Transfer } from '../../history/transfers.ts';
import type { Log } from '../../log.ts';
import { displayName } from '../file-path.ts';
import type { Announcement } from './decision.ts';
import type { SessionNote } from './evidence.ts';

/** A row of the history, and what else its log line says. */
export interface HistoryRow {
  readonly row: Transfer;
  readonly externalId: string | null;
}

type Whose = Pick<DirectoriesTable, 'id' | 'account_id' | 'external_id' | 'sftp_username'>;

type Happening = Partial<Omit<Announcement, 'at'>> & { readonly event: TransferEvent; readonly at: number };

export function historyRow(directory: Whose, happening: Happening): HistoryRow {
  const { event, at, path, from, bytes, by, openedAt } = happening;
  const row = {
    directory_id: directory.id,
    account_id: directory.account_id,
    username: directory.sftp_username,
    address: by === undefined || by.address === '' ? null : by.address,
    session_pid: by?.pid ?? null,
    at,
    event,
    path: path === undefined ? null : displayName(path),
    from_path: from === undefined ? null : displayName(from),
    bytes: bytes ?? null,
    began_at: openedAt ?? null,
  };
  return { row, externalId: directory.external_id };
}

/** What sessions did that changes no file. A deleted directory's sessions end too. */
export async function noteRows(tx: Transaction<Tables>, notes: readonly SessionNote[]): Promise<HistoryRow[]> {
  if (notes.length === 0) return [];
  const found = await tx
    .selectFrom('directories')
    .select(['id', 'account_id', 'external_id', 'sftp_username'])
    .where('id', 'in', [...new Set(notes.map(({ directoryId }) => directoryId))])
    .execute();
  const directories = new Map(found.map((directory) => [directory.id, directory]));
  return notes.flatMap(({ directoryId, beganAt, ...note }) => {
    const directory = directories.get(directoryId);
    return directory ? [historyRow(directory, { ...note, openedAt: beganAt })] : [];
  });
}

export async function writeHistory(tx: Transaction<Tables>, rows: readonly HistoryRow[]): Promise<void> {
  await insertTransfers(
    tx,
    rows.map(({ row }) => row),
  );
}

/**
 * What was cut off is worth an `info` line; the rest are `debug`, since there can be thousands a second
 * (`berth transfers --follow` shows them too).
 */
export function logHistory(log: Log, rows: readonly HistoryRow[]): void {
  if (!log.isLevelEnabled('info')) return;
  for (const { row, externalId } of rows) {
    const level = row.event === 'upload-dropped' ? 'info' : 'debug';
    if (!log.isLevelEnabled(level)) continue;
    log[level](
      {
        directory: row.directory_id,
        external_id: externalId,
        username: row.username,
        address: row.address ?? undefined,
        session: row.session_pid ?? undefined,
        path: row.path ?? undefined,
        from: row.from_path ?? undefined,
        bytes: row.bytes ?? undefined,
      },
      row.event,
    );
  }
}

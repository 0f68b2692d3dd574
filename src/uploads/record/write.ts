/** One transaction's part for one directory: looks, decisions, and what follows from them. */
import type { Transaction } from 'kysely';
import type { Micros } from '../../clock.ts';
import { compiled } from '../../db/compiled.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { enqueue, type UploadEvent } from '../../webhooks/outbox.ts';
import { bytesOf, displayName } from '../file-path.ts';
import { decide } from './decide.ts';
import type { Announcement, Effects, Wait } from './decision.ts';
import { type FileRow, Files } from './files.ts';
import type { FileStat } from './file-stat.ts';
import { type FolderMove, isAt, moveRows } from './folder-move.ts';
import { type HistoryRow, historyRow, unrecorded } from './history.ts';
import { lookAt, type LookOptions, type Sight } from './look.ts';
import type { Entry } from './namespace.ts';
import type { Unmatched } from './unmatched.ts';

export type UploadDirectory = UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;

/** The directory, while it is live and at home on this node. */
export const live = compiled<{ id: string; node: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(['id', 'account_id', 'slug', 'external_id', 'webhook_url', 'sftp_username'])
    .where('id', '=', p('id'))
    .where('node', '=', p('node'))
    .where('deleted_at', 'is', null),
);

/** What became of a look. */
export type Outcome =
  | { readonly kind: 'wait'; readonly wait: Wait; readonly isLost?: boolean; readonly stat: FileStat | undefined }
  /** A folder has more rows. */
  | { readonly kind: 'go on'; readonly move: FolderMove }
  /** So many closes and renames of the entry were acted upon. */
  | { readonly kind: 'done'; readonly closes: number; readonly renames: number; readonly isLost: boolean };

export interface Written {
  readonly entry: Entry;
  readonly outcome: Outcome;
  readonly history: readonly HistoryRow[];
  /** The destination of each webhook that was enqueued. */
  readonly webhooks: readonly string[];
}

export async function lookAndWrite(
  tx: Transaction<Tables>,
  directoryId: string,
  entries: readonly Entry[],
  now: Micros,
  options: LookOptions,
): Promise<Written[]> {
  const directory = await live.first(tx, { id: directoryId, node: options.node });
  // It has been deleted, or moved to another node, and nothing in it matters any more.
  if (!directory) return entries.map((entry) => ({ ...NOTHING, entry, outcome: allDone(entry) }));
  const files = new Files(tx, directoryId);
  const written: Written[] = [];
  for (const entry of entries) {
    const sight = await lookAt(entry, files, now, options);
    const isFolder = sight.isFolder && sight.closes.length === 0;
    if (isFolder) written.push(await followFolder(files, sight, directory, options));
    else written.push(await writeFile(tx, files, sight, directory, options));
  }
  await files.flush();
  return written;
}

const NOTHING = { history: [], webhooks: [] };

/** The outcome when all that is known of an entry has been acted upon. */
export function allDone({ closes, renames }: Entry) {
  return { kind: 'done', closes: closes.length, renames: renames.length, isLost: false } as const;
}

function doneWith({ closes, matched, renames }: Sight, isLost: boolean): Outcome {
  return { kind: 'done', closes: matched ? 0 : closes.length, renames, isLost };
}

async function writeFile(
  tx: Transaction<Tables>,
  files: Files,
  sight: Sight,
  directory: UploadDirectory,
  options: LookOptions,
): Promise<Written> {
  const { entry, stat } = sight;
  const decision = decide(sight);
  if ('wait' in decision) return { ...NOTHING, entry, outcome: { kind: 'wait', ...decision, stat } };
  const written = await apply(files, sight, decision, options.unmatched);
  const announced = decision.announce.map((upload) => ({ ...upload, event: 'uploaded' as const }));
  const uploads = await unrecorded(tx, directory, announced, options);
  const events = await unrecorded(tx, directory, decision.events, options);
  for (const upload of uploads) files.announced(upload);
  const webhooks = await enqueue(tx, ...uploads.map((upload) => uploadEvent(directory, upload, written)));
  const history = [...uploads, ...events].map((happening) => historyRow(directory, happening));
  return { entry, outcome: doneWith(sight, decision.isLost ?? false), history, webhooks };
}

/** Returns the row that the file has now, if it was written. */
async function apply(files: Files, sight: Sight, effects: Effects, unmatched: Unmatched): Promise<FileRow | undefined> {
  const { row, twin, path, entry, matched } = sight;
  const { id } = entry.directory.jail;
  if (matched) unmatched.removeClose(id, matched);
  for (const close of effects.unmatched ?? []) unmatched.addClose(id, close);
  const gone = async (old: FileRow): Promise<void> => {
    unmatched.addRow(old);
    await files.remove(old);
  };
  if (effects.remove && row) await gone(row);
  if (effects.put) {
    const { row: put, id: old } = effects.put;
    if (sight.isPlaced) await files.removePlacement(put);
    if (row && twin && !old) await files.remove(twin);
    // Its file may have been moved away, and another be here now.
    if (row && row.inode !== put.inode) unmatched.addRow(row);
    const file = { ...put, path: bytesOf(path), ...(old !== undefined && { id: old }) };
    return files.put(file, row ?? (old ? undefined : twin));
  }
  if (effects.change) {
    const of = effects.change.of === twin ? twin : row;
    if (!of) throw new Error('a decision changes a row that was not looked at');
    if (row && row !== of) await gone(row);
    return files.update(of, { ...effects.change.to, path: bytesOf(path) });
  }
  return undefined;
}

function uploadEvent(
  directory: UploadDirectory,
  { path, bytes, at }: Announcement,
  written: FileRow | undefined,
): UploadEvent {
  // An announcement may be of what was overwritten before anybody looked.
  const isOfRow = written?.state === 'uploaded' && written.uploaded_at === at;
  return {
    directory,
    uploadId: isOfRow ? written.id : null,
    filename: displayName(path),
    sizeBytes: bytes,
    uploadedAt: at,
  };
}

/** Rows below a folder's former names follow it. A row at its own path is of a file that has gone. */
async function followFolder(
  files: Files,
  sight: Sight,
  directory: UploadDirectory,
  { filesRoot, unmatched }: LookOptions,
): Promise<Written> {
  const { entry, row, rename, removal } = sight;
  const root = filesRoot(directory.sftp_username);
  const history: HistoryRow[] = [];
  const forget = async (old: FileRow): Promise<void> => {
    unmatched.addRow(old);
    await files.remove(old);
  };
  if (row) await forget(row);
  // It may have had the name of a file that was removed just before.
  for (const path of removal ? entry.formerly : []) {
    const old = await files.at(path);
    if (!old || !removal || isAt(root, old, old.path)) continue;
    history.push(historyRow(directory, { ...removal, event: 'removed', path, bytes: old.size_bytes }));
    await forget(old);
  }
  const move = await moveRows(files, root, entry, unmatched);
  if (move.former < entry.formerly.length) return { ...NOTHING, history, entry, outcome: { kind: 'go on', move } };
  const isMoved = rename !== undefined && move.moved > 0;
  if (isMoved) history.push(historyRow(directory, { ...rename, event: 'renamed', path: entry.path }));
  return { ...NOTHING, entry, outcome: doneWith(sight, move.lost > 0), history };
}

/** One transaction's part for one directory: looks, decisions, and what follows from them. */
import type { Transaction } from 'kysely';
import type { Micros } from '../../clock.ts';
import { compiled } from '../../db/compiled.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { enqueue, type UploadEvent } from '../../webhooks/outbox.ts';
import { bytesOf, displayName } from '../file-path.ts';
import { decide } from './decide.ts';
import type { Announcement, Effects, Wait } from './decision.ts';
import { Files, type FileRow } from './files.ts';
import type { FileStat } from './file-stat.ts';
import { FOLDER_MOVE, type FolderMove, moveRows } from './folder-move.ts';
import { type HistoryRow, historyRow } from './history.ts';
import { lookAt, type LookOptions, type Sight } from './look.ts';
import type { Entry } from './namespace.ts';
import type { Strays } from './strays.ts';

export type UploadDirectory = UploadEvent['directory'] & Pick<DirectoriesTable, 'sftp_username'>;

const live = compiled<{ id: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(['id', 'account_id', 'slug', 'external_id', 'webhook_url', 'webhook_secret', 'sftp_username'])
    .where('id', '=', p('id'))
    .where('deleted_at', 'is', null),
);

/** Undefined when the directory has been deleted: then nothing in it matters any more. */
export function liveDirectory(tx: Transaction<Tables>, id: string): Promise<UploadDirectory | undefined> {
  return live.first(tx, { id });
}

/** What became of a look. */
export type Outcome =
  | { readonly kind: 'wait'; readonly wait: Wait; readonly isLost?: boolean; readonly stat: FileStat | undefined }
  /** A folder has more rows. */
  | { readonly kind: 'go on'; readonly move: FolderMove }
  | {
      readonly kind: 'done';
      /** How much of the evidence was acted upon. */
      readonly closes: number;
      readonly renames: number;
      readonly isUnsettled?: boolean;
      readonly rescan?: boolean;
    };

export interface Written {
  readonly entry: Entry;
  readonly outcome: Outcome;
  readonly history: readonly HistoryRow[];
  /** The destination of each webhook that was enqueued. */
  readonly webhooks: readonly string[];
}

export async function lookAndWrite(
  tx: Transaction<Tables>,
  directory: UploadDirectory | undefined,
  entries: readonly Entry[],
  now: Micros,
  options: LookOptions,
): Promise<Written[]> {
  if (!directory) {
    return entries.map((entry) => {
      const all = { kind: 'done', closes: entry.closes.length, renames: entry.renames.length } as const;
      return { entry, outcome: all, history: [], webhooks: [] };
    });
  }
  const files = new Files(tx, directory.id);
  const written: Written[] = [];
  for (const entry of entries) {
    const sight = await lookAt(entry, files, now, options);
    if (sight.isFolder && sight.closes.length === 0) {
      written.push(await followFolder(files, sight, directory, options));
      continue;
    }
    const decision = decide(sight);
    if ('wait' in decision) {
      written.push({ entry, outcome: { kind: 'wait', ...decision, stat: sight.stat }, history: [], webhooks: [] });
      continue;
    }
    await apply(files, sight, decision, options.strays);
    const webhooks = await enqueue(tx, ...decision.announce.map((upload) => uploadEvent(directory, upload)));
    const history = [
      ...decision.announce.map((upload) => historyRow(directory, { ...upload, event: 'uploaded' })),
      ...decision.events.map((event) => historyRow(directory, event)),
    ];
    const { isUnsettled = false, isLost: rescan = false } = decision;
    written.push({ entry, outcome: { ...doneWith(sight), isUnsettled, rescan }, history, webhooks });
  }
  await files.flush();
  return written;
}

function doneWith({ closes, met, renames }: Sight) {
  return { kind: 'done', closes: met ? 0 : closes.length, renames } as const;
}

async function apply(files: Files, sight: Sight, effects: Effects, strays: Strays): Promise<void> {
  const { row, twin, path, entry } = sight;
  const { id } = entry.directory;
  if (sight.met) strays.removeClose(id, sight.met);
  for (const close of effects.strays ?? []) strays.addClose(id, close);
  const gone = async (old: FileRow): Promise<void> => {
    strays.addRow(old);
    await files.remove(old);
  };
  if (effects.remove && row) await gone(row);
  if (effects.put) {
    const { row: put, id: old } = effects.put;
    if (row && twin && !old) await files.remove(twin);
    // Its file may have been moved away, and another be here now.
    if (row && row.inode !== put.inode) strays.addRow(row);
    await files.put(
      { ...put, path: bytesOf(path), ...(old !== undefined && { id: old }) },
      row ?? (old ? undefined : twin),
    );
  }
  if (effects.change) {
    const of = effects.change.of === twin ? twin : row;
    if (!of) throw new Error('a decision changes a row that was not looked at');
    if (row && row !== of) await gone(row);
    await files.update(of, { ...effects.change.to, path: bytesOf(path) });
  }
}

function uploadEvent(directory: UploadDirectory, { path, bytes, at }: Announcement): UploadEvent {
  return { directory, filename: displayName(path), sizeBytes: bytes, uploadedAt: at };
}

/** What is at the path is a folder: rows below its former names follow it. One recorded as a file goes. */
async function followFolder(
  files: Files,
  sight: Sight,
  directory: UploadDirectory,
  options: LookOptions,
): Promise<Written> {
  const { entry, row, rename } = sight;
  if (row) await files.remove(row);
  const move = await moveRows(files, options.filesRoot(directory.sftp_username), entry, entry.move ?? FOLDER_MOVE);
  if (move.former < entry.formerly.length) {
    return { entry, outcome: { kind: 'go on', move }, history: [], webhooks: [] };
  }
  const history =
    rename && move.moved > 0 ? [historyRow(directory, { ...rename, event: 'renamed', path: entry.path })] : [];
  return { entry, outcome: { ...doneWith(sight), rescan: move.lost > 0 }, history, webhooks: [] };
}

/**
 * Rows below a folder that was renamed follow their files, some at a time. Each row is held against the disk: what was
 * moved on since, or came anew under the old name, is told by its own events, or by a scan.
 */
import { lstatBeneath } from '../../beneath.ts';
import { bytesOf, type FilePath, pathOf } from '../file-path.ts';
import type { FileRow, Files } from './files.ts';
import { fileStat, isFileOf } from './file-stat.ts';
import type { Entry } from './namespace.ts';
import type { Unmatched } from './unmatched.ts';

/** Rows in one transaction. */
const STEP = 100;

export interface FolderMove {
  /** Where to go on: a former name's index, and the row after which. */
  readonly former: number;
  readonly after: FilePath;
  /** Rows that were moved, and those whose files are neither here nor there. */
  readonly moved: number;
  readonly lost: number;
}

const BEGINNING: FolderMove = { former: 0, after: '', moved: 0, lost: 0 };

/** Takes one step. `former` is past the last former name when nothing is left. */
export async function moveRows(files: Files, root: string, entry: Entry, unmatched: Unmatched): Promise<FolderMove> {
  const { move = BEGINNING } = entry.progress;
  const folder = entry.formerly[move.former];
  if (folder === undefined) return move;
  const to = entry.path;
  const rows = await files.below(folder, move.after, STEP);
  let { moved, lost } = move;
  for (const row of rows) {
    const from = pathOf(row.path);
    const path = to + from.slice(folder.length);
    if (isAt(root, row, bytesOf(path))) {
      const replaced = await files.at(path);
      if (replaced && replaced.id !== row.id) {
        // Its file may have been moved on, with a folder whose rows have yet to follow.
        unmatched.addRow(replaced);
        await files.remove(replaced);
      }
      if (replaced?.id !== row.id) await files.update(row, { path: bytesOf(path) });
      moved += 1;
    } else if (!isAt(root, row, row.path)) lost += 1;
  }
  const last = rows.at(-1);
  if (rows.length === STEP && last) return { former: move.former, after: pathOf(last.path), moved, lost };
  return { former: move.former + 1, after: '', moved, lost };
}

/** Whether the row's file is there. */
export function isAt(root: string, row: FileRow, path: Buffer): boolean {
  const stats = lstatBeneath(root, path);
  return stats?.isFile() === true && isFileOf(row, fileStat(stats));
}

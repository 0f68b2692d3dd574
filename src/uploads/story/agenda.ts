/**
 * What is to be done about one directory: operations in the order of the log, and looks at paths.
 *
 * An operation may overtake another only if no path of theirs is equal, above or below; what waits holds back everything
 * that is related to it. A look never speaks before the log: it waits for every operation that touches its path.
 */
import type { FilePath } from '../file-path.ts';
import type { FileStat } from '../record/file-stat.ts';
import type { Operation } from './operations.ts';
import { PathSet } from './path-set.ts';
import { isBelow } from './tracked-files.ts';

/** An operation on its way into the database. */
export interface Task {
  readonly operation: Operation;
  readonly paths: readonly FilePath[];
  /** Waits for the log, the disk or the kernel, or is in the transaction that is under way. */
  isBusy: boolean;
  /** What is on the disk for certain: null for nothing. */
  synced?: FileStat | null;
  /** The disk did not take what was written to the file: it is never known to be whole. */
  isLost?: boolean;
  /** What lay there before the log was heard: null for nothing. */
  seen?: FileStat | null;
  /** After which row a folder's move goes on. */
  after: FilePath;
  /** Times that it was applied without a result. */
  tries: number;
}

/** A path that is to be compared with its row. */
export interface Look {
  readonly path: FilePath;
  /** By the monotonic clock, in ms. */
  due: number;
  isBusy: boolean;
  /** Asked for again while it was busy. */
  isRepeated: boolean;
  /** What was seen, and since when. */
  still?: { readonly stat: FileStat | undefined; readonly since: number } | undefined;
  /** A client set times or sizes shortly before. */
  wasSet: boolean;
  /** The log has been heard, and the kernel says that nobody writes it, since `still` was seen. */
  isUnexplained: boolean;
  synced?: FileStat | null;
  isLost?: boolean;
  tries: number;
}

export class Agenda {
  readonly #tasks = new Set<Task>();
  /** What the tasks are about. */
  readonly #inUse = new PathSet();
  readonly #looks = new Map<FilePath, Look>();

  add(operation: Operation): Task {
    const task = { operation, paths: pathsOf(operation), isBusy: false, after: '', tries: 0 };
    this.#tasks.add(task);
    if (operation.kind === 'end') this.#inUse.addAll();
    else this.#inUse.add(task.paths);
    return task;
  }

  /** Plans a look at the latest at `due`. */
  look(path: FilePath, due: number): void {
    const look = this.#looks.get(path);
    if (!look)
      this.#looks.set(path, {
        path,
        due,
        isBusy: false,
        isRepeated: false,
        isUnexplained: false,
        wasSet: false,
        tries: 0,
      });
    else if (look.isBusy) look.isRepeated = true;
    else look.due = Math.min(look.due, due);
  }

  /** A file or folder has another name: looks follow it, and the old name is looked at, too. */
  moved(from: FilePath, to: FilePath): void {
    for (const { path, due } of Array.from(this.#looks.values())) {
      if (path === from || isBelow(path, from)) this.look(to + path.slice(from.length), due);
    }
  }

  /** Takes operations that may be applied together, in this order. */
  takeTasks(limit: number): Task[] {
    const waiting = new PathSet();
    const taken: Task[] = [];
    /** Those that wait and are not in the set yet: most operations touch no other, and need none. */
    let unlisted: Task[] = [];
    let isAnyWaiting = false;
    for (const task of this.#tasks) {
      if (taken.length >= limit) break;
      const { operation, isBusy, paths } = task;
      if (operation.kind === 'end') {
        if (isBusy || isAnyWaiting) break;
        taken.push(task);
        continue;
      }
      if (!isBusy && isAnyWaiting && this.#inUse.touchesOthers(paths)) {
        for (const each of unlisted) waiting.add(each.paths);
        unlisted = [];
      }
      if (isBusy || waiting.touches(paths)) {
        unlisted.push(task);
        isAnyWaiting = true;
      } else taken.push(task);
    }
    for (const task of taken) task.isBusy = true;
    return taken;
  }

  /** Takes looks that are due and touch no operation. */
  takeLooks(limit: number, now: number): Look[] {
    const taken: Look[] = [];
    if (this.#looks.size === 0 || limit <= 0) return taken;
    for (const look of this.#looks.values()) {
      if (taken.length >= limit) break;
      if (look.isBusy || look.due > now || this.#inUse.touches([look.path])) continue;
      look.isBusy = true;
      taken.push(look);
    }
    return taken;
  }

  /** The operation has been applied. */
  done(task: Task): void {
    if (!this.#tasks.delete(task)) return;
    if (task.operation.kind === 'end') this.#inUse.removeAll();
    else this.#inUse.remove(task.paths);
  }

  /** The look is settled; asked for again meanwhile, it is due at once. */
  settled(look: Look, now: number): void {
    if (this.#looks.get(look.path) === look) this.#looks.delete(look.path);
    if (look.isRepeated) this.look(look.path, now);
  }

  get operations(): number {
    return this.#tasks.size;
  }

  get looks(): number {
    return this.#looks.size;
  }

  /** Looks that are due or under way. */
  dueLooks(now: number): number {
    let count = 0;
    for (const { due, isBusy } of this.#looks.values()) if (isBusy || due <= now) count += 1;
    return count;
  }

  /** When the next look can be taken; undefined when none can before an operation has been applied. */
  nextLook(): number | undefined {
    let next: number | undefined;
    for (const { due, isBusy, path } of this.#looks.values()) {
      if (!isBusy && (next === undefined || due < next) && !this.#inUse.touches([path])) next = due;
    }
    return next;
  }
}

/** The paths of an operation other than an end, which touches all. */
function pathsOf(operation: Operation): readonly FilePath[] {
  switch (operation.kind) {
    case 'move':
      return [operation.from, operation.to];
    case 'put':
    case 'remove':
      return [operation.path];
    case 'end':
      return [];
  }
}

/** Whether the file that was synced is the one seen now, with the same size. */
export function isSynced({ synced }: Task | Look, stat: FileStat): boolean {
  return (
    synced !== undefined && synced !== null && synced.inode === stat.inode && synced.size_bytes === stat.size_bytes
  );
}

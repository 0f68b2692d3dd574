/**
 * The pending work for one directory: operations in the order of the log, and looks at paths.
 *
 * Paths are related if they are equal or one is above the other. An operation may overtake another only if none of
 * their paths are related. An operation that waits holds back every later one on related paths. A look waits for every
 * operation on a path related to its own, so the disk is never believed before the log.
 */
import type { FilePath } from '../file-path.ts';
import type { FileStat } from '../record/file-stat.ts';
import type { Operation } from './operations.ts';
import { PathSet } from './path-set.ts';
import { isBelow } from './tracked-files.ts';

/** What a task and a look have in common. */
export interface Job {
  /** Whether it waits for the log or the disk, or is in the running transaction. */
  isBusy: boolean;
  /** How many times it has waited. */
  tries: number;
  /** The file as it was after a sync; null when there was none. */
  synced?: FileStat | null;
  /** The disk lost data that was written to the file, so it can never count as complete. */
  isLost?: boolean;
}

/** An operation on its way into the database. */
export interface Task extends Job {
  readonly operation: Operation;
  readonly paths: readonly FilePath[];
  /** The file as it was before the task waited for the log; null when there was none. */
  seen?: FileStat | null;
  /** The path of the last row that a folder's move has handled; '' at the start. */
  after: FilePath;
}

/** A planned comparison of a path with its row. */
export interface Look extends Job {
  readonly path: FilePath;
  /** When to look, by the monotonic clock in ms. */
  due: number;
  /** Whether the look was requested again while it was busy. */
  isRepeated: boolean;
  /** The file that looks have found, and since when, by the monotonic clock in ms. */
  still?: { readonly stat: FileStat | undefined; readonly since: number } | undefined;
  /** A client set the file's times or size shortly before. */
  wasSet: boolean;
  /**
   * Since `still` was found, the log has been read without explaining the file, and the kernel says that no session has
   * it open for writing.
   */
  isUnexplained: boolean;
}

export class Agenda {
  readonly #tasks = new Set<Task>();
  /** The paths of the tasks. */
  readonly #inUse = new PathSet();
  readonly #looks = new Map<FilePath, Look>();

  add(operation: Operation): Task {
    const task = { operation, paths: pathsOf(operation), isBusy: false, after: '', tries: 0 };
    this.#tasks.add(task);
    if (operation.kind === 'end') this.#inUse.addAll();
    else this.#inUse.add(task.paths);
    return task;
  }

  /** Plans a look for `due` or earlier. */
  look(path: FilePath, due: number, wasSet = false): void {
    const look = this.#looks.get(path);
    if (!look) {
      const state = { isBusy: false, isRepeated: false, isUnexplained: false, tries: 0 };
      this.#looks.set(path, { path, due, wasSet, ...state });
      return;
    }
    look.wasSet ||= wasSet;
    if (look.isBusy) look.isRepeated = true;
    else look.due = Math.min(look.due, due);
  }

  /**
   * A file or folder was renamed: plans each look at or below `from` for the new path too. The looks at the old paths
   * stay.
   */
  moved(from: FilePath, to: FilePath): void {
    for (const { path, due, wasSet } of Array.from(this.#looks.values())) {
      if (path === from || isBelow(path, from)) this.look(to + path.slice(from.length), due, wasSet);
    }
  }

  /** Takes operations that may be applied in one transaction, in order. */
  takeTasks(limit: number): Task[] {
    const waiting = new PathSet();
    const taken: Task[] = [];
    /**
     * Waiting tasks that are not in `waiting` yet. Most operations are related to no other, so the set is filled only
     * when it is needed.
     */
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

  /** Removes a look that is complete. If it was requested again meanwhile, the new look is due at once. */
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

  /**
   * When the next look can be taken, by the monotonic clock in ms. Undefined when there is none, or all wait for
   * operations.
   */
  nextLook(): number | undefined {
    let next: number | undefined;
    for (const { due, isBusy, path } of this.#looks.values()) {
      if (!isBusy && (next === undefined || due < next) && !this.#inUse.touches([path])) next = due;
    }
    return next;
  }
}

/** The paths of an operation. An end lists none: it touches all paths. */
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

/** Whether the file that was synced has the same inode and size as the one seen now. */
export function isSynced({ synced }: Job, stat: FileStat): boolean {
  return (
    synced !== undefined && synced !== null && synced.inode === stat.inode && synced.size_bytes === stat.size_bytes
  );
}

/**
 * The pending work for one directory: operations in the order of the log, and looks at paths.
 *
 * Paths are related if they are equal or one is above the other. An operation may overtake another only if none of
 * their paths are related. An operation that waits holds back every later one on related paths. A look waits for every
 * operation on a path related to its own, so the disk is never believed before the log.
 */
import type { FilePath } from '../file-path.ts';
import type { FileIdentity } from '../record/file-stat.ts';
import { Look, Task } from './jobs.ts';
import type { Operation } from './operations.ts';
import { PathSet } from './path-set.ts';
import { isBelow } from './tracked-files.ts';

/** How much longer a look that only hints have asked for waits while the log is behind, in ms: most likely its lines are to come. */
const BEHIND_MS = 10_000;

export class Agenda {
  readonly #tasks = new Set<Task>();
  /** The paths of the tasks. */
  readonly #inUse = new PathSet();
  readonly #looks = new Map<FilePath, Look>();

  add(operation: Operation): Task {
    const task = new Task(operation);
    this.#tasks.add(task);
    if (operation.kind === 'end') this.#inUse.addAll();
    else this.#inUse.add(task.paths);
    return task;
  }

  /** Plans a look for `due`. If one is planned for an earlier time, that is repeated. */
  look(path: FilePath, due: number, wasSet = false, hintedAt = Infinity): void {
    const look = this.#looks.get(path);
    if (look) look.request(due, wasSet, hintedAt);
    else this.#looks.set(path, new Look(path, due, wasSet, hintedAt));
  }

  /** An operation has compared the path with its row after `since`: what only earlier hints have asked for is done. */
  compared(path: FilePath, since: number): void {
    const look = this.#looks.get(path);
    if (look?.state === 'ready' && look.hintedAt < since) this.#looks.delete(path);
  }

  /**
   * A file or folder was renamed: plans each look at or below `from` for the new path too. The looks at the old paths
   * stay.
   */
  moved(from: FilePath, to: FilePath): void {
    for (const { path, due, wasSet, hintedAt } of Array.from(this.#looks.values())) {
      if (path === from || isBelow(path, from)) this.look(to + path.slice(from.length), due, wasSet, hintedAt);
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
      const { operation, paths } = task;
      const isReady = task.state === 'ready';
      if (operation.kind === 'end') {
        if (!isReady || isAnyWaiting) break;
        taken.push(task);
        continue;
      }
      if (isReady && isAnyWaiting && this.#inUse.touchesOthers(paths)) {
        for (const each of unlisted) waiting.add(each.paths);
        unlisted = [];
      }
      if (!isReady || waiting.touches(paths)) {
        unlisted.push(task);
        isAnyWaiting = true;
      } else taken.push(task);
    }
    for (const task of taken) task.become('taken');
    return taken;
  }

  /**
   * Takes looks that are due and touch no operation.
   * @param isBehind whether lines or operations wait.
   */
  takeLooks(limit: number, now: number, isBehind = false): Look[] {
    const taken: Look[] = [];
    if (this.#looks.size === 0 || limit <= 0) return taken;
    for (const look of this.#looks.values()) {
      if (taken.length >= limit) break;
      if (look.state !== 'ready' || dueOf(look, isBehind) > now || this.#inUse.touches([look.path])) continue;
      look.become('taken');
      taken.push(look);
    }
    return taken;
  }

  /** The operation has been applied. */
  done(task: Task): void {
    task.become('over');
    this.#tasks.delete(task);
    if (task.operation.kind === 'end') this.#inUse.removeAll();
    else this.#inUse.remove(task.paths);
  }

  /**
   * Removes a look that is complete. If it was requested again meanwhile, the new look is due at once; if it was requested for later,
   * too, another look is due then.
   */
  settled(look: Look, now: number): void {
    look.become('over');
    this.#looks.delete(look.path);
    if (look.isRepeated) this.look(look.path, now);
    if (look.until > now) this.look(look.path, look.until);
  }

  /** Whether an upload that may have left this file has ended, and is still to be recorded. */
  isEndPending(stat: FileIdentity): boolean {
    for (const { operation } of this.#tasks) {
      if (operation.kind !== 'put') continue;
      const { inode, bytes = stat.size_bytes } = operation.end;
      if (inode === undefined ? bytes === stat.size_bytes : inode === stat.inode) return true;
    }
    return false;
  }

  get operations(): number {
    return this.#tasks.size;
  }

  get looks(): number {
    return this.#looks.size;
  }

  /**
   * Looks that are due or under way, counted up to `most`. Those that only hints have asked for do not count: the log says nothing
   * about them.
   */
  dueLooks(now: number, most: number): number {
    let count = 0;
    for (const { due, state, hintedAt } of this.#looks.values()) {
      if (count >= most) break;
      if (state !== 'ready' || (due <= now && hintedAt === Infinity)) count += 1;
    }
    return count;
  }

  /**
   * When the next look can be taken, by the monotonic clock in ms. Undefined when there is none, or all wait for
   * operations.
   */
  nextLook(isBehind = false): number | undefined {
    let next: number | undefined;
    for (const look of this.#looks.values()) {
      const due = dueOf(look, isBehind);
      if (look.state === 'ready' && (next === undefined || due < next) && !this.#inUse.touches([look.path])) next = due;
    }
    return next;
  }
}

function dueOf({ due, hintedAt }: Look, isBehind: boolean): number {
  return isBehind && hintedAt < Infinity ? due + BEHIND_MS : due;
}

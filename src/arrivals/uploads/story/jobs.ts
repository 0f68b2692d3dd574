/** The pending work of a directory: operations on their way into the database, and planned looks at paths. */
import type { FilePath } from '../file-path.ts';
import type { FileStat } from '../record/file-stat.ts';
import type { Operation } from './operations.ts';

/** How long a file has to stay unchanged before it is recorded, in ms. */
export const REST_MS = 2000;

type State =
  /** It can be taken. */
  | 'ready'
  /** It is in the running transaction. */
  | 'taken'
  /** It waits for the log, the disk or the kernel. */
  | 'waiting'
  | 'over';

/** The states that may follow each. */
const NEXT: Record<State, readonly State[]> = {
  ready: ['taken', 'waiting'],
  taken: ['ready', 'waiting', 'over'],
  waiting: ['ready', 'over'],
  over: [],
};

/** What a task and a look have in common. */
class Job {
  /** The file as it was after a sync: null when there was none, undefined before the first sync. */
  synced: FileStat | null | undefined;
  /** The disk lost data that was written to the file, so it can never count as complete. */
  isLost = false;
  #state: State = 'ready';
  #waits = 0;

  get state(): State {
    return this.#state;
  }

  /** How many times it has waited. */
  get waits(): number {
    return this.#waits;
  }

  /** @throws {Error} if it cannot get into that state from its own: a fault of berth. */
  become(state: State): void {
    if (!NEXT[this.#state].includes(state)) throw new Error(`work that is ${this.#state} cannot become ${state}`);
    this.#state = state;
    if (state === 'waiting') this.#waits += 1;
  }

  /** Whether the file that was synced has the same inode and size as the one seen now. */
  isSynced(stat: FileStat): boolean {
    return this.synced?.inode === stat.inode && this.synced.size_bytes === stat.size_bytes;
  }
}

/** An operation on its way into the database. */
export class Task extends Job {
  readonly operation: Operation;
  readonly paths: readonly FilePath[];
  /** The file as it was before the task waited for the log: null when there was none, undefined before it has waited. */
  seen: FileStat | null | undefined;
  /** The kernel was asked whether later opens of a put's file were refused. */
  hasAsked = false;
  /** The path of the last row that a folder's move has handled; '' at the start. */
  after: FilePath = '';

  constructor(operation: Operation) {
    super();
    this.operation = operation;
    this.paths = pathsOf(operation);
  }
}

/** A planned comparison of a path with its row. */
export class Look extends Job {
  readonly path: FilePath;
  /** When to look, by the monotonic clock in ms. */
  due: number;
  /** A client set the file's times or size shortly before. */
  wasSet: boolean;
  /** What the latest looks have found in the same state. */
  found: LookedAt | undefined;
  /** The latest time for which it was requested: what is expected then may not show earlier. */
  until: number;
  /** When the last hint asked for it, by the monotonic clock in ms; Infinity if anything else has asked. */
  hintedAt: number;
  #isRepeated = false;

  constructor(path: FilePath, due: number, wasSet: boolean, hintedAt = Infinity) {
    super();
    this.path = path;
    this.due = due;
    this.until = due;
    this.wasSet = wasSet;
    this.hintedAt = hintedAt;
  }

  /** Requests it for `due`: it may be earlier, and is repeated then. Once it is over if it is under way. */
  request(due: number, wasSet: boolean, hintedAt = Infinity): void {
    this.wasSet ||= wasSet;
    this.hintedAt = Math.max(this.hintedAt, hintedAt);
    this.until = Math.max(this.until, due);
    if (this.state === 'ready') this.due = Math.min(this.due, due);
    else this.#isRepeated = true;
  }

  /** Whether it was requested again while it was under way. */
  get isRepeated(): boolean {
    return this.#isRepeated;
  }
}

interface LookedAt {
  /** The file; undefined when there was none. */
  readonly stat: FileStat | undefined;
  /** By the monotonic clock, in ms. */
  readonly since: number;
  /**
   * Since then, the log has been read without explaining the file, and the kernel says that no session has it open for
   * writing.
   */
  readonly isUnexplained: boolean;
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

/**
 * The names of a directory that the log has spoken of lately, as a tree of entries. An entry stands for a file or
 * folder, whatever it is called by now, and holds what is known of it until somebody has looked.
 *
 * A rename moves an entry with all below it, in one step however much that is. sshd logs a request before it tries it,
 * so every change of the tree can be undone.
 */
import type { FilePath } from '../file-path.ts';
import type { Close, Removal, Rename } from './evidence.ts';
import type { FileStat } from './file-stat.ts';
import type { FolderMove } from './folder-move.ts';
import type { Handle } from './handle.ts';

/** Former names that are remembered of a folder whose rows have yet to follow it. */
const FORMER_LIMIT = 8;

export class Entry {
  name: string;
  parent: Entry | undefined;
  readonly directory: Names;
  readonly children = new Map<string, Entry>();

  /** Handles that write the file. */
  readonly writers = new Set<Handle>();
  /** How the newest handle ended so far, while others still write. */
  verdict: Close | undefined;
  /** Ends of uploads that nobody has looked at, oldest first. */
  closes: Close[] = [];
  /** Its renames that nobody has looked at. */
  renames: Rename[] = [];
  removal: Removal | undefined;
  /** The end of the session that left it under a temporary name. */
  over: Removal | undefined;
  /** Until when changed times and sizes count as set by a client, by the monotonic clock in ms. */
  setUntil = 0;
  /** Where rows of a folder's files may still be. */
  formerly: FilePath[] = [];

  /** How far its rows have followed a renamed folder. */
  move: FolderMove | undefined;

  /** What the look before the write barrier saw; null for nothing. */
  seen: FileStat | null | undefined;
  /** What is on the disk for certain. */
  synced: FileStat | undefined;
  /** What the last look saw, and since when, by the monotonic clock in ms. */
  rest: { readonly stat: FileStat | undefined; readonly since: number } | undefined;
  /** A file that no session explains: nobody holds it open, and the log has nothing to say of it. */
  isUnexplained = false;
  /** Looks so far since the last news. */
  looks = 0;
  stage: 'idle' | 'due' | 'preparing' = 'idle';
  /** When to look again, in ticks of the ledger. */
  tick: number | undefined;

  constructor(name: string, parent: Entry | undefined, directory: Names) {
    this.name = name;
    this.parent = parent;
    this.directory = directory;
  }

  get isRoot(): boolean {
    return this === this.directory.root;
  }

  /** Whether it still has a name. */
  get isAttached(): boolean {
    return this.isRoot || (this.parent?.isAttached ?? false);
  }

  get path(): FilePath {
    const above = this.parent?.path ?? '';
    return above === '' ? this.name : `${above}/${this.name}`;
  }

  /** Whether anything is known that a look has yet to settle. */
  get isPending(): boolean {
    return this.closes.length > 0 || this.renames.length > 0 || (this.removal ?? this.over) !== undefined;
  }

  get isNeeded(): boolean {
    return (
      this.isPending ||
      this.writers.size > 0 ||
      this.children.size > 0 ||
      this.tick !== undefined ||
      this.stage !== 'idle' ||
      this.setUntil > performance.now()
    );
  }
}

/** An entry that was moved or taken away, until sshd has said whether it did that. */
export interface Change {
  readonly entry: Entry;
  readonly from: FilePath;
  /** Undefined for a removal. */
  readonly to: FilePath | undefined;
  /** What lay at `to`. */
  readonly replaced: Entry | undefined;
  /** Puts everything back. */
  undo(): void;
}

export class Names {
  readonly id: string;
  readonly username: string;
  readonly root: Entry;
  /** Entries to be looked at now. */
  readonly due = new Set<Entry>();
  /** Entries that are being prepared for a look. */
  preparing = 0;

  constructor(id: string, username: string) {
    this.id = id;
    this.username = username;
    this.root = new Entry('', undefined, this);
  }

  find(path: FilePath): Entry | undefined {
    let entry: Entry | undefined = this.root;
    for (const name of path.split('/')) entry = entry?.children.get(name);
    return entry;
  }

  ensure(path: FilePath): Entry {
    let entry = this.root;
    for (const name of path.split('/')) {
      let child = entry.children.get(name);
      if (!child) {
        child = new Entry(name, entry, this);
        entry.children.set(name, child);
      }
      entry = child;
    }
    return entry;
  }

  /** Returns undefined for what no kernel does: onto itself or below itself. */
  rename(from: FilePath, to: FilePath): Change | undefined {
    if (to === from || to.startsWith(`${from}/`)) return undefined;
    const entry = this.ensure(from);
    const formerly = entry.formerly;
    const was = formerPaths(entry, from);
    const replaced = this.find(to);
    detach(entry);
    if (replaced) detach(replaced);
    this.#attach(entry, to);
    entry.formerly = was;
    const undo = (): void => {
      if (entry.isAttached && entry.path === to) detach(entry);
      entry.formerly = formerly;
      if (!entry.isAttached) this.#putBack(entry, from);
      if (replaced && !replaced.isAttached) this.#putBack(replaced, to);
    };
    return { entry, from, to, replaced, undo };
  }

  remove(path: FilePath): Change {
    const entry = this.ensure(path);
    detach(entry);
    const undo = (): void => {
      if (!entry.isAttached) this.#putBack(entry, path);
    };
    return { entry, from: path, to: undefined, replaced: undefined, undo };
  }

  /** Forgets entries that hold nothing, from this one up. */
  prune(entry: Entry): void {
    for (let at: Entry | undefined = entry; at && !at.isRoot && !at.isNeeded;) {
      const { parent }: Entry = at;
      if (parent?.children.get(at.name) === at) parent.children.delete(at.name);
      at = parent;
    }
  }

  get isEmpty(): boolean {
    return this.root.children.size === 0 && this.due.size === 0 && this.preparing === 0;
  }

  #attach(entry: Entry, path: FilePath): void {
    const cut = path.lastIndexOf('/');
    const parent = cut === -1 ? this.root : this.ensure(path.slice(0, cut));
    entry.name = path.slice(cut + 1);
    entry.parent = parent;
    parent.children.set(entry.name, entry);
  }

  /** Only where nothing else is known by now. */
  #putBack(entry: Entry, path: FilePath): void {
    const there = this.find(path);
    if (there && (there.closes.length > 0 || there.writers.size > 0 || there.children.size > 0)) return;
    if (there) detach(there);
    this.#attach(entry, path);
  }
}

function detach(entry: Entry): void {
  const { parent } = entry;
  if (parent?.children.get(entry.name) === entry) parent.children.delete(entry.name);
  entry.parent = undefined;
}

/** Where rows of it, and of what lies below it, may still be: under each of its names and of those above it. */
function formerPaths(entry: Entry, path: FilePath): FilePath[] {
  const found = new Set([path, ...entry.formerly]);
  let rest = entry.name;
  for (let above = entry.parent; above; above = above.parent) {
    for (const former of above.formerly) found.add(`${former}/${rest}`);
    rest = `${above.name}/${rest}`;
  }
  return [...found].slice(0, FORMER_LIMIT);
}

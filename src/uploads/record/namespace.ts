/**
 * The names in a directory that the log has spoken of lately, as a tree of entries. An entry stands for one file or
 * folder, whatever it is called by now, and holds what is known of it until a look has settled that.
 *
 * A rename moves an entry with all below it in one step. sshd logs a request before it tries it, so every change of the
 * tree can be undone.
 */
import { baseName, type FilePath, parentOf } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { Close, Handle, Removal, Rename } from './evidence.ts';
import type { FileStat } from './file-stat.ts';
import type { FolderMove } from './folder-move.ts';

/** Former names that are remembered of a folder whose rows have yet to follow it. */
const FORMER_LIMIT = 8;

/** How far an entry is on its way to a decision. News of its content or its name begins it anew. */
export interface Progress {
  /** What was there before the write barrier; null for nothing. */
  seen?: FileStat | null;
  /** A client set times or sizes shortly before the first look. */
  wasSet?: boolean;
  /** What is on the disk for certain. */
  synced?: FileStat | undefined;
  /** No session explains it: nobody holds it open, and the log has nothing to say of it. */
  isUnexplained?: boolean;
  /** How far its rows have followed a renamed folder. */
  move?: FolderMove;
}

export class Entry {
  name: string;
  parent: Entry | undefined;
  readonly directory: Namespace;
  readonly children = new Map<string, Entry>();

  /** Handles that write the file. */
  readonly writers = new Set<Handle>();
  /** How the newest handle ended so far, while others still write. */
  newestEnd: Close | undefined;
  /** Ends of uploads that no look has settled, oldest first. */
  closes: Close[] = [];
  /** Its renames that no look has settled. */
  renames: Rename[] = [];
  removal: Removal | undefined;
  /** The end of the session that left it under a temporary name. */
  sessionEnd: Removal | undefined;
  /** Until when changed times and sizes count as set by a client, by the monotonic clock in ms. */
  setUntil = 0;
  /** Where rows of a folder's files may still be. */
  formerly: FilePath[] = [];

  progress: Progress = {};
  /** Looks without a decision since the last news. */
  looks = 0;
  /** What the last look saw, and since when, by the monotonic clock in ms. */
  still: { readonly stat: FileStat | undefined; readonly since: number } | undefined;
  /** Something has happened since the look that is under way saw the disk. */
  hasNews = false;
  /** The next look that is planned, by the monotonic clock in ms. */
  later: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined;

  constructor(name: string, parent: Entry | undefined, directory: Namespace) {
    this.name = name;
    this.parent = parent;
    this.directory = directory;
  }

  /** Whether it still has a name. */
  get isAttached(): boolean {
    return this === this.directory.root || (this.parent?.isAttached ?? false);
  }

  get path(): FilePath {
    const above = this.parent?.path ?? '';
    return above === '' ? this.name : `${above}/${this.name}`;
  }

  /** Whether anything is known that a look has yet to settle. */
  get isPending(): boolean {
    return this.closes.length > 0 || this.renames.length > 0 || (this.removal ?? this.sessionEnd) !== undefined;
  }

  /** Whether a look at it is due or under way. */
  get isQueued(): boolean {
    return this.directory.due.has(this) || this.directory.underWay.has(this);
  }

  get isNeeded(): boolean {
    return (
      this.isPending ||
      this.isQueued ||
      this.writers.size > 0 ||
      this.children.size > 0 ||
      this.later !== undefined ||
      this.setUntil > performance.now()
    );
  }
}

/** An entry that was moved or taken away, until sshd has said whether it did that. */
export interface Change {
  readonly entry: Entry;
  /** Undefined for a removal. */
  readonly to: FilePath | undefined;
  /** Puts everything back. */
  undo(): void;
}

export class Namespace {
  readonly jail: Jail;
  readonly root: Entry;
  /** Entries to be looked at now. */
  readonly due = new Set<Entry>();
  /** Entries whose look has begun. */
  readonly underWay = new Set<Entry>();
  /** Entries with a look that is planned for later. */
  readonly planned = new Set<Entry>();

  constructor(jail: Jail) {
    this.jail = jail;
    this.root = new Entry('', undefined, this);
  }

  /** Looks that are due or under way. */
  get pending(): number {
    return this.due.size + this.underWay.size;
  }

  /** Whether everything has been acted upon that the log has told, but for handles that are still open. */
  get isSettled(): boolean {
    return this.pending === 0 && !this.planned.values().some(({ isPending }) => isPending);
  }

  get isEmpty(): boolean {
    return this.root.children.size === 0 && this.pending === 0;
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
  rename(from: FilePath, to: FilePath): (Change & { readonly replaced: Entry | undefined }) | undefined {
    if (to === from || to.startsWith(`${from}/`)) return undefined;
    const entry = this.ensure(from);
    const { formerly, parent } = entry;
    const formerPaths = allFormerPaths(entry, from);
    const replaced = this.find(to);
    detach(entry);
    if (replaced) detach(replaced);
    this.#attach(entry, to);
    entry.formerly = formerPaths;
    if (parent) this.prune(parent);
    const undo = (): void => {
      if (entry.isAttached && entry.path === to) detach(entry);
      entry.formerly = formerly;
      // First: it may be the folder that `from` lies in.
      if (replaced) this.#putBack(replaced, to);
      this.#putBack(entry, from);
    };
    return { entry, to, replaced, undo };
  }

  remove(path: FilePath): Change {
    const entry = this.ensure(path);
    detach(entry);
    return { entry, to: undefined, undo: () => this.#putBack(entry, path) };
  }

  /** Forgets entries that hold nothing, from this one up. */
  prune(entry: Entry): void {
    for (let at = entry; at !== this.root && !at.isNeeded;) {
      const { parent }: Entry = at;
      // It keeps its parent: whoever still holds it finds its path.
      if (parent?.children.get(at.name) === at) parent.children.delete(at.name);
      if (!parent) return;
      at = parent;
    }
  }

  #attach(entry: Entry, path: FilePath): void {
    const folder = parentOf(path);
    const parent = folder === '' ? this.root : this.ensure(folder);
    entry.name = baseName(path);
    entry.parent = parent;
    parent.children.set(entry.name, entry);
  }

  /** Only where nothing else is known by now. */
  #putBack(entry: Entry, path: FilePath): void {
    if (entry.isAttached) return;
    const there = this.find(path);
    if (there && (there.closes.length > 0 || there.writers.size > 0 || there.children.size > 0)) return;
    if (there) detach(there);
    this.#attach(entry, path);
    this.prune(entry);
  }
}

function detach(entry: Entry): void {
  const { parent } = entry;
  if (parent?.children.get(entry.name) === entry) parent.children.delete(entry.name);
  entry.parent = undefined;
}

/** Where rows of it, and of what lies below it, may still be: under each of its names and of those above it. */
function allFormerPaths(entry: Entry, path: FilePath): FilePath[] {
  const found = new Set([path, ...entry.formerly]);
  let rest = entry.name;
  for (let above = entry.parent; above; above = above.parent) {
    for (const former of above.formerly) found.add(`${former}/${rest}`);
    rest = `${above.name}/${rest}`;
  }
  const all = [...found];
  if (all.length <= FORMER_LIMIT) return all;
  // Rows are where they were before all these renames, or follow one of the latest.
  return [...all.slice(0, FORMER_LIMIT / 2), ...all.slice(-FORMER_LIMIT / 2)];
}

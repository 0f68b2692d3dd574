/**
 * The true fate of each upload, and so what has to be announced. An upload is known by its size, which is its own, or by a number
 * between that size and the next (`contentOf`) if another one had the size before.
 */
import { contentOf, type Inode } from './disk.ts';

/** How far two requests of two sessions may be apart if the log has them in the other order, in µs. */
export const RACE = 300;

const DROPPED = 'dropped';

/** More of a name than that, in bytes beyond ASCII, the log cuts off. */
const CUT_NAME = 120;

/** What sshd's log has of a message, in characters. */
const CUT_MESSAGE = 500;

/** What happened just before something else was at most that much sooner, in µs. */
const JUST = 200_000;

/** As sshd's log writes a message: bytes beyond ASCII in octal digits, and at most 500 characters (log.c). */
export function asLogged(message: string): string {
  const octal = (char: string): string => `\\${char.charCodeAt(0).toString(8)}`;
  return message.replaceAll(/[\x80-\xff]/g, octal).slice(0, CUT_MESSAGE);
}

type Fate =
  /** Written, under a temporary name, by that session: announced when it gets a final name, or when the session ends. */
  { readonly kind: 'waiting'; readonly pid: number; readonly size: number } | { readonly kind: 'none' };

interface Change {
  readonly pid: number;
  /** In µs. */
  readonly at: number;
  /** Its folder was moved. */
  readonly isFolders: boolean;
}

export class Truth {
  /** Sizes that have to be announced exactly once. */
  readonly promised = new Map<number, string>();
  /** When a promise was made, in µs. */
  readonly since = new Map<number, number>();
  /** Every name that a file of that size has had since it was closed: sessions overtake each other. */
  readonly names = new Map<number, Set<string>>();
  /** Sizes that may be announced once: it is unknown whether the file was complete, or existed long enough. */
  readonly allowed = new Set<number>();
  /** Sizes that are announced only when their file is found, under the name that it has then. */
  readonly #late = new Set<number>();
  /** Sizes that must never be announced. */
  readonly forbidden = new Map<number, string>();
  /** What the log says of a size, if that differs: it is announced so when the file has been overwritten before a look. */
  readonly logged = new Map<number, readonly number[]>();
  /** Inodes that several handles wrote at once, or whose size was set: their sizes prove nothing. */
  readonly #unclear = new WeakSet<Inode>();
  readonly #copies = new WeakSet<Inode>();
  readonly #unproven = new WeakSet<Inode>();
  /** The size that it had then. */
  readonly #doubted = new WeakMap<Inode, number>();
  /** How many earlier uploads of a file may be announced with that size, its own: berth had not seen theirs. */
  readonly earlier = new Map<number, number>();
  readonly #unseen = new WeakMap<Inode, number>();
  readonly #fates = new Map<Inode, Fate>();
  /** The latest times that a session has moved the folder of a file, or renamed, opened or closed the file itself. */
  readonly #changes = new WeakMap<Inode, readonly (Change & { readonly content: number })[]>();
  #left: readonly { readonly inode: Inode; readonly path: string; readonly at: number }[] = [];
  /** Sizes of files whose folder was moved at the same time: they may be announced under any name. */
  readonly raced = new Set<number>();

  /**
   * A session has moved the folder of a file, or renamed, opened or closed the file. The log may have it in another order.
   * @param content what was in the file before.
   */
  moved(inode: Inode, change: Change, content = contentOf(inode)): void {
    const recent = (this.#changes.get(inode) ?? []).filter(({ at }) => change.at - at < RACE);
    this.#changes.set(inode, [...recent, { ...change, content }]);
    const others = recent.filter(({ pid, isFolders }) => pid !== change.pid && (isFolders || change.isFolders));
    if (others.length === 0) return;
    const now = contentOf(inode);
    for (const each of [...others.map((other) => other.content), content, now]) {
      this.raced.add(each);
      // It has been overwritten, and nobody has found it where the log does not have it.
      if (each !== now && this.promised.has(each)) this.allow(each);
    }
  }

  /** A file was renamed away from that path. */
  left(inode: Inode, path: string, at: number): void {
    this.#left = [...this.#left.filter((each) => at - each.at < RACE), { inode, path, at }];
  }

  /** The files that were below that folder a moment ago. */
  leftFrom(folder: string, at: number): Inode[] {
    return this.#left
      .filter((each) => at - each.at < RACE && each.path.startsWith(`${folder}/`))
      .map(({ inode }) => inode);
  }

  isUnclear(inode: Inode): boolean {
    return this.#unclear.has(inode);
  }

  blur(inode: Inode): void {
    this.#unclear.add(inode);
    const content = contentOf(inode);
    if (content > inode.size && !this.promised.has(content)) this.allowed.add(content);
    const fate = this.#fates.get(inode);
    if (fate?.kind === 'waiting') this.promised.delete(fate.size);
    this.overwritten(inode);
  }

  /** The last writer has closed it completely. */
  closed(
    inode: Inode,
    path: string | undefined,
    { pid, openedAs, at }: { readonly pid: number; readonly openedAs: string; readonly at: number },
    isTemporary: (path: string) => boolean,
  ): void {
    if (this.isUnclear(inode) || path === undefined) return;
    this.moved(inode, { pid, at, isFolders: false });
    this.earlier.set(contentOf(inode), this.#unseen.get(inode) ?? 0);
    this.names.set(contentOf(inode), new Set([path, openedAs]));
    this.since.set(contentOf(inode), at);
    if (this.#unproven.delete(inode)) return void this.allowed.add(contentOf(inode));
    if (isTemporary(path)) this.#fates.set(inode, { kind: 'waiting', pid, size: contentOf(inode) });
    else this.promised.set(contentOf(inode), path);
  }

  /** An administrator has copied it there: it is announced once it is stable. */
  copied(inode: Inode, path: string): void {
    this.names.set(contentOf(inode), new Set([path]));
    this.promised.set(contentOf(inode), path);
    this.#copies.add(inode);
  }

  /** It was moved or removed without SFTP, possibly before berth found the copy. */
  disturbed(inode: Inode): void {
    const fate = this.#fates.get(inode);
    if (fate?.kind === 'waiting') this.allowed.add(fate.size);
    this.#fates.delete(inode);
    if (this.#copies.has(inode)) this.allow(contentOf(inode));
  }

  /**
   * An append to a file with the content `before`. If the log has miscounted that, its sum for the appended file is as wrong, and
   * nothing shows it once the file has been overwritten.
   */
  appended(before: number, size: number): void {
    const counted = this.logged.get(before);
    if (counted)
      this.logged.set(
        size,
        counted.map((bytes) => bytes + size - Math.floor(before)),
      );
  }

  /** The log counts fewer bytes than the file of that size has, because of a hole or a write that was cut short. */
  counted(size: number, ...written: readonly number[]): void {
    this.logged.set(size, written);
  }

  /** Nothing shows whether its last write was cut short. */
  unproven(inode: Inode): void {
    this.#unproven.add(inode);
  }

  dropped(inode: Inode, path?: string): void {
    if (path !== undefined && !this.names.has(contentOf(inode))) this.names.set(contentOf(inode), new Set([path]));
    if (this.#unproven.delete(inode)) return void this.allowed.add(contentOf(inode));
    if (!this.isUnclear(inode) && inode.size > 0) this.forbidden.set(contentOf(inode), DROPPED);
  }

  /** Whether a promised upload may be announced under that name. */
  isNameOf(size: number, name: string, isTemporary: (path: string) => boolean): boolean {
    if (this.raced.has(size)) return true;
    const promised = this.promised.get(size) ?? '';
    const mayBeTemporary = isTemporary(promised) || this.#late.has(size);
    return name === promised || (this.names.get(size)?.has(name) === true && (mayBeTemporary || !isTemporary(name)));
  }

  /** The power has gone. What had not been announced may be lost with it, and need not be announced any more. */
  powerCut(announced: ReadonlyMap<number, number>): void {
    for (const { size } of [...this.#fates.values()].filter((fate) => fate.kind === 'waiting')) this.allowed.add(size);
    this.#fates.clear();
    for (const [size, contents] of Map.groupBy([...this.promised.keys()], Math.floor))
      if ((announced.get(size) ?? 0) < contents.length) contents.forEach((content) => this.allow(content));
  }

  /** The log's lines from then on are lost. A file that was written since, with the size and the time of what it had, looks the same. */
  unlogged(inode: Inode, since: number): void {
    const content = contentOf(inode);
    const looksOld = content > inode.size && inode.mtime <= since && inode.ctime > since;
    if (looksOld && this.forbidden.delete(content)) this.allowed.add(content);
  }

  /** Whether what is in the file was cut off. */
  isCutOff(inode: Inode): boolean {
    const content = contentOf(inode);
    return this.forbidden.get(content) === DROPPED && !this.promised.has(content);
  }

  /** It may be announced once, and need not. */
  allow(size: number): void {
    this.promised.delete(size);
    this.allowed.add(size);
  }

  /** A write to it may have been cut short, as far as the log shows: it is announced only if it is found. */
  doubted(inode: Inode): void {
    this.#doubted.set(inode, contentOf(inode));
    this.#late.add(contentOf(inode));
  }

  /** The process died with that file open. If the log has cut off the name, nobody can tell which of those alike is complete. */
  killed(path: string): void {
    const start = path.slice(0, CUT_NAME);
    if (start.length < CUT_NAME) return;
    for (const [size, each] of this.promised) if (each.startsWith(start)) this.allow(size);
  }

  /**
   * The connection broke with that file open. If the log has not even the end of the name, nobody can tell which of those alike was
   * closed just before.
   */
  broke(path: string, at: number): void {
    const start = path.slice(0, CUT_NAME);
    if (asLogged(path).length < CUT_MESSAGE) return;
    for (const [size, each] of this.promised)
      if (each.startsWith(start) && at - (this.since.get(size) ?? 0) < JUST) this.allow(size);
  }

  /** A complete file whose name the log cuts off is opened again so soon that berth may not have seen its size. */
  reopened(inode: Inode, path: string, content: number): void {
    if (path.length < CUT_NAME || !this.promised.has(content)) return;
    this.allow(content);
    this.#unseen.set(inode, (this.#unseen.get(inode) ?? 0) + 1);
  }

  /** Somebody writes it again, or removed it: what waited is not announced any more. */
  overwritten(inode: Inode, content = contentOf(inode)): void {
    this.#fates.delete(inode);
    // Nobody has found it where the log does not have it.
    if (this.raced.has(content) && this.promised.has(content)) this.allow(content);
    const doubted = this.#doubted.get(inode);
    if (doubted !== undefined && this.promised.has(doubted)) this.allow(doubted);
    this.#doubted.delete(inode);
  }

  renamed(inode: Inode, to: string, isTemporary: (path: string) => boolean): void {
    this.names.get(contentOf(inode))?.add(to);
    const fate = this.#fates.get(inode);
    if (fate?.kind !== 'waiting' || isTemporary(to)) return;
    this.#fates.delete(inode);
    this.promised.set(fate.size, to);
  }

  sessionEnded(pid: number, pathOf: (inode: Inode) => string | undefined): void {
    for (const [inode, fate] of this.#fates) {
      if (fate.kind !== 'waiting' || fate.pid !== pid) continue;
      this.#fates.delete(inode);
      const path = pathOf(inode);
      if (path === undefined) continue;
      this.promised.set(fate.size, path);
    }
  }
}

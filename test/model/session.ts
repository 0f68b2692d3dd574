/**
 * An SFTP session on the model's disk, as stock sshd serves it: it logs a request, then tries it, and logs the answer only
 * when it is a refusal. One request after the other. Writes are not logged, and the refusal of a write that the disk cuts
 * short does not name it.
 */
import { contentOf, type Inode, type ModelDisk } from './disk.ts';
import type { Opening, Step, Writing } from './steps.ts';
import type { ModelTime } from './time.ts';
import { RACE, type Truth } from './truth.ts';

type Put = Step & { readonly kind: 'put' };

export interface SessionOptions {
  readonly pid: number;
  readonly disk: ModelDisk;
  readonly time: ModelTime;
  readonly truth: Truth;
  readonly isTemporary: (path: string) => boolean;
  /** µs; random. */
  readonly between: (from: number, to: number) => number;
  /** A size that nothing else has. */
  readonly nextSize: () => number;
  readonly log: (text: string) => void;
  /** `serve` may not read what is logged now for a while. */
  readonly isReadLate: () => boolean;
  readonly trace: (text: string) => void;
  /** The process is gone. If it died without a line, its session ends when berth notices. */
  readonly ended: (noticed: (() => void) | undefined) => void;
}

interface OpenFile {
  readonly inode: Inode;
  readonly path: string;
  /** It was not emptied. */
  readonly isAppend: boolean;
  /** And it is written from the beginning. */
  readonly isInPlace: boolean;
  /** What sshd has counted. */
  written: number;
  /** Something that the client sent is not in the file. */
  isShort: boolean;
  /** A request was refused that may have been a write. */
  isDoubted: boolean;
  /** It has a hole that does not show. */
  hasGap: boolean;
  /** The size that was set, or 0. */
  resizedTo: number;
}

const FLAGS = {
  truncate: 'WRITE,CREATE,TRUNCATE',
  append: 'WRITE,APPEND,CREATE',
  inPlace: 'WRITE',
  exclusive: 'WRITE,CREATE,EXCL',
} as const;

/** In µs: longer than `BUSY_LAG`. */
const PAUSE = 2_500_000;

/** A time that a client sets, in µs. */
const DATED = 1_500_000_000_000_000;

/** More than a block, so that a hole shows. */
const FAR = 1_000_000;

export class ModelSession {
  readonly options: SessionOptions;
  readonly #open = new Set<OpenFile>();
  #isDead = false;
  /** The file that a put is writing. */
  #filling: OpenFile | undefined;
  /** The last line is that of a rename or a removal. */
  #hasChanged = false;

  constructor(options: SessionOptions) {
    this.options = options;
  }

  /** Plays the steps, one after the other; `isOver` when the session has ended. */
  play(steps: readonly Step[], end: 'quit' | 'cut' | 'killed'): void {
    this.options.log('session opened for local user someone from [192.0.2.1]');
    this.#next([...steps], () => this.#end(end));
  }

  /** The machine went down. */
  die(): void {
    for (const { inode } of this.#open) this.options.truth.dropped(inode);
    this.#open.clear();
    this.#isDead = true;
  }

  /** The files that it has open for writing. */
  writing(): readonly OpenFile[] {
    return [...this.#open];
  }

  #next(steps: Step[], then: () => void): void {
    const { between } = this.options;
    const step = steps.shift();
    this.#in(between(0, 5) < 3 ? between(5, 60) : between(60, 4000), () => {
      if (!step) return then();
      this.#do(step, () => this.#next(steps, then));
    });
  }

  #in(us: number, run: () => void): void {
    this.options.time.in(us, () => {
      if (!this.#isDead) run();
    });
  }

  /** Logs a request, tries it a little later, and logs a refusal. */
  #request(text: string | undefined, act: () => boolean, then: () => void, refusal = () => 'No such file'): void {
    const { between, log } = this.options;
    if (text !== undefined) {
      this.#hasChanged = /^(posix-)?(rename|remove) /.test(text);
      log(text);
    }
    this.#in(between(10, 160), () => {
      if (!act()) {
        const status = refusal();
        if (status === 'Failure') this.#doubt();
        this.#hasChanged = false;
        log(`sent status ${status}`);
      }
      then();
    });
  }

  /** A request was refused that may have been a write of any open file, as far as the log shows. */
  #doubt(): void {
    for (const file of this.#open) file.isDoubted = true;
  }

  #refusalOfRename({ path, to, kind }: Step & { readonly kind: 'rename' | 'replace' }): string {
    const { disk } = this.options;
    const from = disk.at(path);
    const end = to.lastIndexOf('/');
    if (!from || (end !== -1 && disk.at(to.slice(0, end))?.isFolder !== true)) return 'No such file';
    const isBelow = to.startsWith(`${path}/`);
    return isBelow && (kind === 'replace' || !disk.at(to)) ? 'Bad message' : 'Failure';
  }

  #do(step: Step, then: () => void): void {
    const { disk, time, truth, isTemporary, nextSize, pid } = this.options;
    if (step.kind === 'pause') return this.#in(PAUSE, then);
    if (step.kind === 'resizeOpen') return this.#resizeOpen(then);
    const { path } = step;
    const refusal = (): string => (disk.at(path) ? 'Failure' : 'No such file');
    switch (step.kind) {
      case 'put':
        return this.#put(step, then);
      case 'rename':
      case 'replace': {
        const isCareful = step.kind === 'rename';
        const act = (): boolean => {
          const inode = disk.at(path);
          if (path === step.to) return !isCareful && inode !== undefined;
          const replaced = disk.at(step.to);
          if (!disk.rename(path, step.to, isCareful, time.now)) return false;
          if (replaced) truth.overwritten(replaced);
          for (const [to, each] of inode?.isFolder ? disk.files() : []) truth.renamed(each, to, isTemporary);
          if (inode && !inode.isFolder) truth.renamed(inode, step.to, isTemporary);
          const isFolders = inode?.isFolder === true;
          const below = disk.files().filter(([to]) => to.startsWith(`${step.to}/`));
          const moved = isFolders ? [...below.map(([, each]) => each), ...truth.leftFrom(path, time.now)] : [inode];
          for (const each of moved) if (each) truth.moved(each, { pid, at: time.now, isFolders });
          if (inode && !isFolders) truth.left(inode, path, time.now);
          return true;
        };
        const text = `${isCareful ? '' : 'posix-'}rename old "${path}" new "${step.to}"`;
        return this.#request(text, act, then, () => this.#refusalOfRename(step));
      }
      case 'remove': {
        const act = (): boolean => {
          const inode = disk.at(path);
          if (!disk.remove(path)) return false;
          if (inode) truth.overwritten(inode);
          return true;
        };
        return this.#request(`remove name "${path}"`, act, then, refusal);
      }
      case 'makeFolder': {
        return this.#request(`mkdir name "${path}" mode 0777`, () => disk.makeFolder(path, time.now), then, refusal);
      }
      case 'removeFolder':
        return this.#request(`rmdir name "${path}"`, () => disk.removeFolder(path), then, refusal);
      case 'stat':
        return this.#request(`stat name "${path}"`, () => disk.at(path) !== undefined, then);
      case 'badHandle':
        return this.#request(
          undefined,
          () => false,
          then,
          () => 'Failure',
        );
      case 'resize': {
        const size = nextSize();
        const act = (): boolean => {
          const inode = disk.at(path);
          if (!inode || inode.isFolder) return false;
          truth.blur(inode);
          disk.resize(inode, size, time.now);
          disk.changed(path);
          return true;
        };
        return this.#request(`set "${path}" size ${size}`, act, then);
      }
      case 'resizeToOwn': {
        // As truncate(2): a file that has the size already stays as it is. To set that of half a file says that it is whole.
        const inode = disk.at(path);
        if (!inode || !truth.promised.has(contentOf(inode))) return then();
        return this.#request(`set "${path}" size ${inode.size}`, () => disk.at(path) === inode, then);
      }
      case 'read': {
        let size: number | undefined;
        const act = (): boolean => {
          const inode = disk.at(path);
          if (inode && !inode.isFolder) size = inode.size;
          return size !== undefined;
        };
        const close = (): void => {
          if (size === undefined) return then();
          this.#request(`close "${path}" bytes read ${size} written 0`, () => true, then);
        };
        return this.#request(`open "${path}" flags READ mode 0666`, act, close);
      }
      case 'touch': {
        const act = (): boolean => {
          const inode = disk.at(path);
          return inode !== undefined && !inode.isFolder && this.#date({ inode, path }, DATED);
        };
        return this.#request(`set "${path}" modtime 20170714-02:40:00`, act, then);
      }
    }
  }

  /** As ftruncate(2): sshd logs the name that the handle was opened with. */
  #resizeOpen(then: () => void): void {
    const { disk, time, nextSize } = this.options;
    const file = this.#filling;
    if (!file) return then();
    const size = nextSize();
    const act = (): boolean => {
      disk.resize(file.inode, size, time.now);
      file.resizedTo = size;
      disk.changed(file.path);
      return true;
    };
    this.#request(`set "${file.path}" size ${size}`, act, then);
  }

  #put(step: Put, then: () => void): void {
    const {
      opening = 'truncate',
      isTwice = false,
      isLeft = false,
      hold,
      between = [],
      path,
      isDatedLike = false,
      isDated = false,
    } = step;
    const { disk, truth } = this.options;
    const there = step.like === undefined ? undefined : disk.at(step.like);
    const like = there && truth.promised.has(contentOf(there)) ? { size: there.size, mtime: there.mtime } : undefined;
    this.#openFile(path, opening, (file) => {
      if (!file) {
        if (opening !== 'exclusiveThenTruncate') return then();
        return this.#put({ ...step, opening: 'truncate' }, then);
      }
      const finish = (): void => {
        this.#in(hold, () => {
          const isAnother = like !== undefined && this.#writeLike(file, like.size);
          if (!isAnother) this.#write(file, step.writing ?? 'whole');
          const end = (): void => {
            if (isLeft) return then();
            this.#request(this.#closing(file, ''), () => this.#close(file, true), then);
          };
          const mtime = isAnother && isDatedLike ? like.mtime : isDated ? DATED : undefined;
          if (mtime === undefined) return end();
          this.#request(`set "${path}" modtime 20170714-02:40:00`, () => this.#date(file, mtime), end);
        });
      };
      const goOn = (): void => {
        if (between.length === 0) return finish();
        this.#write(file, 'whole');
        this.#filling = file;
        this.#next([...between], finish);
      };
      if (!isTwice) return goOn();
      this.#openFile(path, 'append', (second) => {
        if (!second) return goOn();
        this.#write(second, 'whole');
        this.#request(this.#closing(second, ''), () => this.#close(second, true), goOn);
      });
    });
  }

  #openFile(path: string, opening: Opening, then: (file: OpenFile | undefined) => void): void {
    const { disk, time, truth, pid } = this.options;
    const isInPlace = opening === 'inPlace';
    const isAppend = opening === 'append' || isInPlace;
    const isExclusive = opening === 'exclusive' || opening === 'exclusiveThenTruncate';
    let file: OpenFile | undefined;
    const act = (): boolean => {
      if (opening === 'denied') return false;
      const there = disk.at(path);
      const content = there && contentOf(there);
      const how = { create: !isInPlace, truncate: opening === 'truncate', exclusive: isExclusive };
      const inode = disk.open(path, how, time.now);
      if (!inode) return false;
      // The log may have the open before the close: sessions overtake each other.
      if (inode.writers > 1 || time.now - inode.closedAt < RACE) truth.blur(inode);
      truth.moved(inode, { pid, at: time.now, isFolders: false }, content);
      if (time.now - inode.closedAt < PAUSE) truth.reopened(inode, path, content ?? 0);
      truth.overwritten(inode, content);
      const kind = { isAppend, isInPlace };
      file = { inode, path, ...kind, written: 0, isShort: false, isDoubted: false, hasGap: false, resizedTo: 0 };
      this.#open.add(file);
      return true;
    };
    const flags = isExclusive ? FLAGS.exclusive : opening === 'denied' ? FLAGS.truncate : FLAGS[opening as 'append'];
    const refusal = (): string =>
      opening === 'denied' ? 'Permission denied' : disk.at(path) ? 'Failure' : 'No such file';
    this.#request(`open "${path}" flags ${flags} mode 0666`, act, () => then(file), refusal);
  }

  /**
   * Writes up to a size that nothing else has. A write that is cut short right after a rename or a removal looks like the
   * refusal of that, and if the log is read late, nothing shows what it was. If it is read much later, because `serve` is
   * away, this is so after the making of a folder, too.
   */
  #write(file: OpenFile, asked: Writing): void {
    if (file.resizedTo > 0 && asked === 'whole' && this.options.between(0, 2) === 0) return this.#fill(file);
    const isUnknown = this.#hasChanged || this.options.isReadLate();
    // What is written behind a size that was set leaves a gap.
    const wanted = asked === 'whole' && file.resizedTo > 0 ? 'gap' : asked;
    const writing = wanted === 'short' && isUnknown ? 'refused' : wanted;
    const { disk, time, truth, nextSize, log, trace, pid } = this.options;
    const { inode } = file;
    const hasHole = writing === 'sparse' || writing === 'gap';
    const [before, content] = [inode.size, contentOf(inode)];
    // What the log counts of a file with a hole is a number of its own, too.
    const part = hasHole ? nextSize() - file.written : 0;
    const unique = nextSize();
    const size = Math.max(before + 1, writing === 'sparse' ? unique + FAR : unique);
    const counted = hasHole ? part : size - before;
    const count = (): void => truth.counted(size, Math.max(file.written, file.resizedTo));
    switch (writing) {
      case 'whole':
        file.written += counted;
        disk.write(inode, size, time.now);
        if (file.isAppend) truth.appended(content, size);
        break;
      case 'sparse':
        file.written += counted;
        disk.write(inode, size, time.now, inode.allocated + 1);
        count();
        break;
      case 'gap':
        file.written += counted;
        disk.write(inode, size, time.now);
        count();
        file.hasGap = true;
        break;
      case 'short':
        disk.write(inode, size, time.now);
        count();
        if (disk.hasHole(inode) || file.isAppend) truth.unproven(inode);
        file.isShort = true;
        this.#doubt();
        log('sent status Failure');
        break;
      case 'refused':
        file.isShort = true;
        log(`error: process_write: write "${file.path.slice(0, 100)}": No space left on device`);
        log('sent status Failure');
        break;
    }
    trace(`  ${pid} writes ${file.path} ${inode.size} ${writing}`);
    disk.changed(file.path);
  }

  /** Writes another content of that size, unless the file is larger or has been written by somebody else meanwhile. */
  #writeLike(file: OpenFile, size: number): boolean {
    const { disk, time, truth, trace, pid, between } = this.options;
    const { inode, isInPlace } = file;
    if (inode.size !== (isInPlace ? size : 0) || truth.isUnclear(inode)) return false;
    file.written = isInPlace ? between(1, size) : size;
    const before = [size, ...(truth.logged.get(contentOf(inode)) ?? [])];
    disk.writeAnother(inode, size, time.now);
    // The log does not say where in the file it was written.
    if (isInPlace) truth.counted(contentOf(inode), ...before.map((bytes) => bytes + file.written));
    trace(`  ${pid} writes ${file.path} ${size} again`);
    disk.changed(file.path);
    return true;
  }

  /** As futimens(2). */
  #date({ inode, path }: Pick<OpenFile, 'inode' | 'path'>, mtime: number): true {
    const { disk, time } = this.options;
    inode.mtime = mtime;
    inode.ctime = time.now;
    disk.changed(path);
    return true;
  }

  /** Writes into what a set of size has made, and so leaves the size. */
  #fill(file: OpenFile): void {
    const { disk, time, trace, pid } = this.options;
    const { inode } = file;
    file.written = inode.size;
    disk.write(inode, inode.size, time.now, inode.size);
    trace(`  ${pid} fills ${file.path} ${inode.size}`);
    disk.changed(file.path);
  }

  #closing({ path, written }: OpenFile, how: '' | 'forced '): string {
    return `${how}close "${path}" bytes read 0 written ${written}`;
  }

  #close(file: OpenFile, isComplete: boolean): true {
    const { disk, truth, isTemporary, options } = { ...this.options, options: this.options };
    this.#open.delete(file);
    const { inode } = file;
    const path = disk.pathOf(inode);
    disk.close(inode);
    inode.closedAt = options.time.now;
    if (file.isDoubted && file.hasGap) truth.unproven(inode);
    if (inode.writers > 0) return true;
    if (isComplete && !file.isShort)
      truth.closed(inode, path, { pid: options.pid, openedAs: file.path, at: options.time.now }, isTemporary);
    else truth.dropped(inode, path);
    if (file.isDoubted) truth.doubted(inode);
    return true;
  }

  #end(how: 'quit' | 'cut' | 'killed'): void {
    const { log, ended, truth, pid, disk } = this.options;
    for (const file of Array.from(this.#open)) {
      if (how === 'killed') truth.killed(file.path);
      else {
        truth.broke(file.path, this.options.time.now);
        log(this.#closing(file, 'forced '));
      }
      this.#close(file, false);
    }
    if (how !== 'killed') log('session closed for local user someone from [192.0.2.1]');
    const isOver = (): void => truth.sessionEnded(pid, (inode) => disk.pathOf(inode));
    if (how !== 'killed') isOver();
    ended(how === 'killed' ? isOver : undefined);
  }
}

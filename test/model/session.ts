/**
 * An SFTP session on the model's disk, as stock sshd serves it: it logs a request, then tries it, and logs the answer only
 * when it is a refusal. One request after the other.
 */
import type { Inode, ModelDisk } from './disk.ts';
import type { ModelTime } from './time.ts';
import type { Truth } from './truth.ts';

export type Step =
  | { readonly kind: 'put' | 'append' | 'drop'; readonly path: string; readonly hold: number }
  | { readonly kind: 'rename' | 'replace'; readonly path: string; readonly to: string }
  | { readonly kind: 'remove' | 'makeFolder' | 'stat' | 'badHandle' | 'resize' | 'touch'; readonly path: string };

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
  /** The process is gone. One that died without a line is over when somebody notices. */
  readonly ended: (noticed: (() => void) | undefined) => void;
}

interface OpenFile {
  readonly inode: Inode;
  readonly path: string;
  written: number;
}

export class ModelSession {
  readonly options: SessionOptions;
  readonly #open = new Set<OpenFile>();
  #isDead = false;

  constructor(options: SessionOptions) {
    this.options = options;
  }

  /** Plays the steps, one after the other; `isOver` when the session has ended. */
  play(steps: readonly Step[], end: 'quit' | 'cut' | 'killed'): void {
    this.options.log('session opened for local user someone from [192.0.2.1]');
    this.#next([...steps], end);
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

  #next(steps: Step[], end: 'quit' | 'cut' | 'killed'): void {
    const { between } = this.options;
    const step = steps.shift();
    this.#in(between(0, 5) < 3 ? between(5, 60) : between(60, 4000), () => {
      if (!step) return this.#end(end);
      this.#do(step, () => this.#next(steps, end));
    });
  }

  #in(us: number, run: () => void): void {
    this.options.time.in(us, () => {
      if (!this.#isDead) run();
    });
  }

  /** Logs a request, tries it a little later, and logs a refusal. */
  #request(text: string | undefined, act: () => boolean, then: () => void, refusal = 'No such file'): void {
    const { between, log } = this.options;
    if (text !== undefined) log(text);
    this.#in(between(10, 160), () => {
      if (!act()) log(`sent status ${refusal}`);
      then();
    });
  }

  #do(step: Step, then: () => void): void {
    const { disk, time, truth, isTemporary, nextSize } = this.options;
    const { path } = step;
    switch (step.kind) {
      case 'put':
      case 'append':
        return this.#put(path, step.kind === 'append', step.hold, then);
      case 'drop':
        return this.#put(path, false, step.hold, then, true);
      case 'rename':
      case 'replace': {
        const isCareful = step.kind === 'rename';
        const act = (): boolean => {
          const inode = disk.at(path);
          const replaced = disk.at(step.to);
          if (!disk.rename(path, step.to, isCareful, time.now)) return false;
          if (replaced) truth.overwritten(replaced);
          for (const [to, each] of inode?.isFolder ? disk.files() : []) truth.renamed(each, to, isTemporary);
          if (inode && !inode.isFolder) truth.renamed(inode, step.to, isTemporary);
          return true;
        };
        const text = `${isCareful ? '' : 'posix-'}rename old "${path}" new "${step.to}"`;
        return this.#request(text, act, then, disk.at(path) ? 'Failure' : 'No such file');
      }
      case 'remove': {
        const act = (): boolean => {
          const inode = disk.at(path);
          if (!disk.remove(path)) return false;
          if (inode) truth.overwritten(inode);
          return true;
        };
        return this.#request(`remove name "${path}"`, act, then);
      }
      case 'makeFolder':
        return this.#request(`mkdir name "${path}" mode 0777`, () => disk.makeFolder(path, time.now), then, 'Failure');
      case 'stat':
        return this.#request(`stat name "${path}"`, () => disk.at(path) !== undefined, then);
      case 'badHandle':
        return this.#request(undefined, () => false, then, 'Failure');
      case 'resize': {
        const size = nextSize();
        const act = (): boolean => {
          const inode = disk.at(path);
          if (!inode || inode.isFolder) return false;
          truth.blur(inode);
          disk.write(inode, size, time.now);
          disk.changed(path);
          return true;
        };
        return this.#request(`set "${path}" size ${size}`, act, then);
      }
      case 'touch': {
        const act = (): boolean => {
          const inode = disk.at(path);
          if (!inode || inode.isFolder) return false;
          inode.mtime = 1_500_000_000_000_000;
          inode.ctime = time.now;
          disk.changed(path);
          return true;
        };
        return this.#request(`set "${path}" modtime 20170714-02:40:00`, act, then);
      }
    }
  }

  #put(path: string, isAppend: boolean, hold: number, then: () => void, isCut = false): void {
    const { disk, time, truth, nextSize } = this.options;
    let file: OpenFile | undefined;
    const open = (): boolean => {
      const inode = disk.open(path, { create: true, truncate: !isAppend }, time.now);
      if (!inode) return false;
      // The log may have the open before the close: sessions overtake each other.
      if (inode.writers > 1 || time.now - inode.closedAt < 300) truth.blur(inode);
      truth.overwritten(inode);
      file = { inode, path, written: 0 };
      this.#open.add(file);
      return true;
    };
    const flags = isAppend ? 'WRITE,APPEND,CREATE' : 'WRITE,CREATE,TRUNCATE';
    this.#request(`open "${path}" flags ${flags} mode 0666`, open, () => {
      const opened = file;
      if (!opened) return then();
      this.#in(hold, () => {
        const size = nextSize();
        opened.written = isAppend ? Math.max(0, size - opened.inode.size) : size;
        disk.write(opened.inode, Math.max(size, isAppend ? opened.inode.size : 0), time.now);
        disk.changed(path);
        if (isCut) return then();
        this.#request(this.#closing(opened, ''), () => this.#close(opened, true), then);
      });
    });
  }

  #closing({ path, written }: OpenFile, how: '' | 'forced '): string {
    return `${how}close "${path}" bytes read 0 written ${written}`;
  }

  #close(file: OpenFile, isComplete: boolean): true {
    const { disk, truth, isTemporary, options } = { ...this.options, options: this.options };
    this.#open.delete(file);
    const { inode } = file;
    const path = disk.files().find(([, each]) => each === inode)?.[0];
    disk.close(inode);
    inode.closedAt = options.time.now;
    if (inode.writers > 0) return true;
    if (isComplete) truth.closed(inode, path, { pid: options.pid, openedAs: file.path }, isTemporary);
    else truth.dropped(inode);
    return true;
  }

  #end(how: 'quit' | 'cut' | 'killed'): void {
    const { log, ended, truth, pid, disk } = this.options;
    for (const file of Array.from(this.#open)) {
      if (how !== 'killed') log(this.#closing(file, 'forced '));
      this.#close(file, false);
    }
    if (how !== 'killed') log('session closed for local user someone from [192.0.2.1]');
    const isOver = (): void => truth.sessionEnded(pid, (inode) => disk.files().find(([, each]) => each === inode)?.[0]);
    if (how !== 'killed') isOver();
    ended(how === 'killed' ? isOver : undefined);
  }
}

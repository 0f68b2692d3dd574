/** An administrator's actions on the model's disk, which sshd does not log: copies, moves, removals. */
import type { Inode, ModelDisk } from './disk.ts';
import type { ModelTime } from './time.ts';
import type { Truth } from './truth.ts';

export type HandStep =
  | { readonly kind: 'copy' | 'delete' | 'makeFolder'; readonly at: number; readonly path: string }
  | { readonly kind: 'move'; readonly at: number; readonly path: string; readonly to: string };

export interface HandsOptions {
  readonly disk: ModelDisk;
  readonly time: ModelTime;
  readonly truth: Truth;
  readonly trace: (text: string) => void;
  /** A size that nothing else has. */
  readonly nextSize: () => number;
  /** Whether berth cannot know that a copy which is made now is whole. */
  readonly mayBePartial: (copy: Inode) => boolean;
}

/** How long a copy takes: less than a file has to be stable before it counts as whole, in µs. */
const COPYING = 20_000;

export class Hands {
  readonly #options: HandsOptions;

  constructor(options: HandsOptions) {
    this.#options = options;
  }

  do(step: HandStep): void {
    const { disk, time, trace } = this.#options;
    const { kind, path } = step;
    trace(`by hand: ${kind} ${path} ${kind === 'move' ? step.to : ''}`);
    switch (kind) {
      case 'makeFolder':
        return void disk.makeFolder(path, time.now);
      case 'copy':
        return this.#copy(path);
      case 'delete':
        this.#disturb(path);
        return void disk.remove(path);
      case 'move':
        this.#disturb(path);
        this.#disturb(step.to);
        return void disk.rename(path, step.to, false, time.now);
    }
  }

  #copy(path: string): void {
    const { disk, time, truth, nextSize, mayBePartial } = this.#options;
    this.#disturb(path);
    const inode = disk.open(path, { create: true, truncate: true }, time.now);
    if (!inode) return;
    truth.overwritten(inode);
    const size = nextSize();
    const isDoubtful = mayBePartial(inode);
    time.in(COPYING, () => {
      // A session may have renamed it meanwhile.
      const name = disk.files().find(([, each]) => each === inode)?.[0];
      if (name === undefined || inode.writers === 0) return;
      disk.write(inode, size, time.now);
      disk.close(inode);
      if (inode.writers === 0 && !truth.isUnclear(inode)) truth.copied(inode, name);
      if (isDoubtful) truth.disturbed(inode);
      disk.changed(name);
    });
  }

  /** What was copied there may not have been found yet. */
  #disturb(path: string): void {
    const { disk, truth } = this.#options;
    const inode = disk.at(path);
    if (inode && !inode.isFolder) truth.disturbed(inode);
  }
}

/** File systems that fill up: a tmpfs of a given size, mounted for as long as the test takes. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../src/foundation/base/errors.ts';

const PIECES = [1 << 20, 1 << 16, 4096, 1] as const;

export interface SmallDisk extends Disposable {
  /** Takes all the space there is. */
  fill(): void;
  /** Takes all the inodes there are. */
  fillInodes(): void;
  /** Gives back what was taken. */
  free(): void;
}

/** Mounts over `folder`, which is made. `options`: as mount(8) has them for tmpfs. */
export function smallDisk(folder: string, options: string): SmallDisk {
  mkdirSync(folder, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=0755,${options}`, 'berth-test', folder]);
  const filler = join(folder, 'filler');
  return {
    fill() {
      const fd = openSync(filler, 'w');
      for (const size of PIECES) untilFull(() => writeSync(fd, Buffer.alloc(size)));
      closeSync(fd);
    },
    fillInodes() {
      mkdirSync(filler);
      let count = 0;
      untilFull(() => writeFileSync(join(filler, String(count++)), ''));
    },
    free: () => rmSync(filler, { recursive: true, force: true }),
    // Lazily: a session that is just ending may still be in there.
    [Symbol.dispose]: () => void execFileSync('umount', ['--lazy', folder]),
  };
}

function untilFull(take: () => unknown): void {
  try {
    for (;;) take();
  } catch (error) {
    if (errorCode(error) !== 'ENOSPC') throw error;
  }
}

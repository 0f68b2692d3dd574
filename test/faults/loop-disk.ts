/**
 * A small ext4 of its own on a loop device, whose power can be cut. Needs root. With BERTH_TEST_DISK=xfs an XFS, whose ioctl and
 * flag for that are the same (XFS_IOC_GOINGDOWN, fs/xfs/libxfs/xfs_fs.h).
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, truncateSync, writeFileSync } from 'node:fs';

/**
 * FS_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH (fs/ext4/ext4.h), as xfstests cuts the power: nothing that is still in
 * memory gets to the disk any more, the journal included, and everything that touches the file system fails.
 */
const SHUTDOWN = `
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))
`;

const isXfs = process.env['BERTH_TEST_DISK'] === 'xfs';

export interface LoopDisk extends Disposable {
  cutPower(): void;
  /** Puts a disk with what had got to it in its place. */
  mountAgain(): void;
}

/** Mounts it over `folder`, which is made. `image`: a file on another file system. */
export function loopDisk(folder: string, { image, mib }: { image: string; mib: number }): LoopDisk {
  mkdirSync(folder, { recursive: true });
  writeFileSync(image, '');
  // mkfs.xfs makes none below 300 MiB.
  truncateSync(image, (isXfs ? Math.max(mib, 320) : mib) * 1024 * 1024);
  if (isXfs) execFileSync('mkfs.xfs', ['-q', '-f', image]);
  else execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  // As XFS is always: a file that was renamed over another may be empty after a cut unless it was synced.
  const mount = (): void =>
    void execFileSync('mount', ['-o', isXfs ? 'loop,nouuid' : 'loop,noauto_da_alloc', image, folder]);
  const umount = (): void => void execFileSync('umount', ['--lazy', folder]);
  mount();
  return {
    cutPower: () => void execFileSync('python3', ['-c', SHUTDOWN, folder]),
    mountAgain() {
      // A copy: namespaces of other tests' sshd may hold the dead one for as long as they live.
      execFileSync('cp', ['--sparse=always', image, `${image}.copy`]);
      umount();
      renameSync(`${image}.copy`, image);
      mount();
    },
    [Symbol.dispose]: umount,
  };
}

/** Names that the log cuts off: what the log does not say of their files, the kernel and the disk show. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import type { HeldPath } from '../../../../src/arrivals/uploads/processes.ts';
import { recordingPlace } from '../../../support/recording-place.ts';

const NAME = '字'.repeat(43);
const PATH = Buffer.from(NAME).toString('latin1');
const LOGGED = '\\345\\255\\227'.repeat(43);
const OPEN = `open "/files/${LOGGED}`.slice(0, 500);
const CLOSE = `close "/files/${LOGGED}`.slice(0, 500);

/** Lets a client open the file again while it is synced for the first time. */
class Reopened extends FileSyncer {
  opensAgain: (() => void) | undefined;

  override async file(fd: number, size: number): Promise<void> {
    this.opensAgain?.();
    this.opensAgain = undefined;
    await super.file(fd, size);
  }
}

test('an upload is synced while its file is emptied by the next open: both are announced with the size that it has at the end', async () => {
  let held: HeldPath[] = [];
  const syncer = new Reopened({ isOn: true });
  await using place = await recordingPlace({ syncer, heldBy: () => held });
  const open = (): void => {
    place.write(NAME, '');
    held = [{ path: PATH, inode: statSync(join(place.files, NAME)).ino }];
  };
  const close = (data: string): void => {
    place.write(NAME, data);
    held = [];
    place.logged(1, CLOSE);
  };
  syncer.opensAgain = open;
  open();
  place.logged(1, OPEN);
  await place.comesTo([], []);
  close('xxxxx');
  await place.parting.drained();
  place.logged(1, OPEN);
  await place.comesTo([], []);
  close('yyyyyyyyy');
  await place.settles([`${NAME} 9`, `${NAME} 9`], [`${NAME} 9 uploaded`]);
});

test('the next upload empties the file before its status is read, and closes it before the kernel is asked: never announced as empty', async () => {
  let held: HeldPath[] = [];
  let isAsked: (() => void) | undefined;
  const syncer = new Reopened({ isOn: true });
  const heldBy = (): HeldPath[] => {
    isAsked?.();
    isAsked = undefined;
    return held;
  };
  await using place = await recordingPlace({ syncer, heldBy });
  syncer.opensAgain = () => {
    isAsked = () => place.write(NAME, 'yyyyyyyyy');
  };
  place.write(NAME, '');
  held = [{ path: PATH, inode: statSync(join(place.files, NAME)).ino }];
  place.logged(1, OPEN);
  await place.comesTo([], []);
  held = [];
  place.logged(1, CLOSE);
  await place.settles([`${NAME} 9`], [`${NAME} 9 uploaded`]);
});

for (const [what, shown] of [
  ['while the kernel shows its file', true],
  ['before the kernel has shown its file', false],
] as const) {
  test(`a write may have been cut short, ${what}: partial, since the log has no number of bytes`, async () => {
    let held: HeldPath[] = [];
    await using place = await recordingPlace({ heldBy: () => held });
    place.write(NAME, 'xxxxx');
    if (shown) held = [{ path: PATH, inode: statSync(join(place.files, NAME)).ino }];
    place.logged(1, OPEN, 'sent status Failure');
    await place.parting.drained();
    held = [];
    place.logged(1, CLOSE);
    await place.parting.drained();
    place.touch(PATH);
    await place.settles([], [`${NAME} 5 partial`]);
  });
}

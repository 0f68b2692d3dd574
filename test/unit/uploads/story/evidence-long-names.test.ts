/** Names that the log cuts off: what the log does not say of their files, the kernel and the disk show. */
import { renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { FileSyncer } from '../../../../src/arrivals/uploads/disk/file-syncer.ts';
import { observationOf } from '../../../../src/arrivals/uploads/log/line-owners.ts';
import type { HeldPath } from '../../../../src/arrivals/uploads/processes.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

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

test('an upload gets a name that the log cuts off, and the next one of its old name, opened long before that is read, is cut off: the first is complete', async () => {
  await using at = await recordingPlace({ isDead: () => false, isTemporary: (path) => path.endsWith('.part') });
  const name = 'q'.repeat(250);
  at.write('x.part', 'whole');
  at.logged(1, `open "x.part" ${WRITE}`, 'close "x.part" bytes read 0 written 5');
  await at.comes([], ['x.part 5 waiting']);
  renameSync(join(at.files, 'x.part'), join(at.files, name));
  at.wasLogged(`rename old "x.part" new "${'q'.repeat(500)}`.slice(0, 500), Date.now() * 1000);
  at.write('x.part', 'half');
  await wait(100);
  const seen = [observationOf(statSync(join(at.files, 'x.part')))];
  for (const line of [`open "x.part" ${WRITE}`, 'forced close "x.part" bytes read 0 written 4'])
    at.wasLogged(line, Date.now() * 1000, seen);
  await at.comes([], ['x.part 4 partial']);
  at.touch(name);
  at.logged(1, 'session closed for local user acme from [192.0.2.7]');
  await at.comes([`${name} 5`], [`${name} 5 uploaded`, 'x.part 4 partial'].toSorted());
});

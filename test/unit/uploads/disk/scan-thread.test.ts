/** The thread that scans: it finds what differs from the rows, and nothing else. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openReads } from '../../../../src/db/open.ts';
import { ScanThread } from '../../../../src/uploads/disk/scan-thread.ts';
import type { Found } from '../../../../src/uploads/disk/scan-worker.ts';
import { jailFiles } from '../../../../src/uploads/file-path.ts';
import { JailQueries } from '../../../../src/uploads/jails.ts';
import { fill } from '../../../bench/filled.ts';
import { firstAccount } from '../../../bench/served.ts';
import { type Scratch, scratch } from '../../../support/scratch.ts';

const FILES = 250;

async function filledPlace(
  { config }: Scratch,
  taken: (found: readonly Found[]) => void = () => undefined,
  idle?: number,
) {
  await fill(config, await firstAccount(config), { directories: 3, filesEach: FILES });
  const { reads, close } = await openReads(config.database);
  const jails = await new JailQueries(reads, config.node).after('', 10);
  await close();
  const found: string[] = [];
  let lots = 0;
  const thread = new ScanThread({
    databasePlace: config.database,
    jailDir: config.jailDir,
    async take(lot) {
      taken(lot);
      lots += 1;
      for (const { jail, path, isMissing } of lot) {
        found.push(`${isMissing ? 'missing' : 'differs'} ${jail.sftp_username} ${path}`);
      }
    },
    tooDeep: () => undefined,
    idle,
  });
  const end = { [Symbol.asyncDispose]: () => thread.close() };
  return { jails, filesRoot: jailFiles(config.jailDir), thread, found, lots: () => lots, ...end };
}

test('finds new, changed and missing files in any folder, whatever their names, and follows no link', async () => {
  using place = scratch();
  await using at = await filledPlace(place);
  const { jails, thread, found, filesRoot } = at;
  await thread.scan(jails);
  assert.deepEqual(found, []);

  const root = filesRoot('bench-1');
  mkdirSync(join(root, 'deep', 'er'), { recursive: true });
  writeFileSync(Buffer.concat([Buffer.from(join(root, 'deep', 'er', 'new-')), Buffer.from([0xff])]), '');
  writeFileSync(join(root, 'file-7'), 'changed');
  unlinkSync(join(root, 'file-9'));
  symlinkSync(filesRoot('bench-2'), join(root, 'link'));
  await thread.scan(jails);
  const expected = ['differs bench-1 deep/er/new-\xff', 'differs bench-1 file-7', 'missing bench-1 file-9'];
  assert.deepEqual(new Set(found), new Set(expected));
  assert.equal(found.length, expected.length);
});

test('hands over what it finds in lots, and waits while they are on their way to the database', async () => {
  using place = scratch();
  await using at = await filledPlace(place);
  for (let i = 0; i < FILES; i += 1) {
    unlinkSync(join(at.filesRoot('bench-0'), `file-${i}`));
    writeFileSync(join(at.filesRoot('bench-2'), `file-${i}`), 'changed');
  }
  await at.thread.scan(at.jails);
  assert.equal(at.found.length, 2 * FILES);
  assert.ok(at.lots() >= 4, `${at.lots()} lots`);
});

test('a scan whose finds cannot be taken fails, and the next one is whole', async () => {
  using place = scratch();
  let fails = true;
  await using at = await filledPlace(place, () => {
    if (fails) throw new Error('no room');
  });
  unlinkSync(join(at.filesRoot('bench-0'), 'file-1'));
  await assert.rejects(at.thread.scan(at.jails), /no room/);
  fails = false;
  await at.thread.scan(at.jails);
  assert.deepEqual(at.found, ['missing bench-0 file-1']);
});

test('ends on request in the middle of a scan', async () => {
  using place = scratch();
  await using at = await filledPlace(place);
  const scanning = at.thread.scan(Array.from({ length: 1000 }, () => at.jails).flat());
  await Promise.all([assert.rejects(scanning, /ended/), at.thread.close()]);
});

test('scans that begin while an idle thread ends have a thread of their own', async () => {
  using place = scratch();
  await using at = await filledPlace(place, undefined, 0);
  for (let pause = 0; pause < 20; pause += 1) {
    assert.equal((await at.thread.scan(at.jails)).length, at.jails.length);
    await wait(pause % 5);
  }
});

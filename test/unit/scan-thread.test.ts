/** The thread that scans very many directories: it finds what differs from the rows, and nothing else. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openReads } from '../../src/db/open.ts';
import { createLog } from '../../src/log.ts';
import { jailFiles } from '../../src/uploads/jail-files.ts';
import { uploadQueries } from '../../src/uploads/queries.ts';
import { startScanThread } from '../../src/uploads/scan-thread.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const FILES = 250;

async function filledPlace(place: Scratch, signal: AbortSignal) {
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: 3, filesEach: FILES });
  const filesRoot = jailFiles(config.jailDir);
  const reads = openReads(config.databaseFile);
  const places = await uploadQueries(reads).directoriesAfter('', 10);
  reads.close();
  const found: string[] = [];
  let breaths = 0;
  const note = (what: string) => (at: { sftp_username: string }, path: Buffer) =>
    void found.push(`${what} ${at.sftp_username} ${path.toString('latin1')}`);
  const thread = startScanThread({
    databaseFile: config.databaseFile,
    jailDir: config.jailDir,
    log: createLog('error'),
    filesRoot,
    settler: { examine: async (at, path) => note('differs')(at, path), missing: note('missing') },
    breathe: async () => void (breaths += 1),
    tooDeep: () => undefined,
    failed: ({ sftp_username: username }, reason) => void found.push(`failed ${username} ${reason}`),
    signal,
  });
  return { places, filesRoot, thread, found, breaths: () => breaths };
}

test('finds new, changed and missing files in any folder, whatever their names, and follows no link', async () => {
  using place = scratch();
  const { places, filesRoot, thread, found } = await filledPlace(place, new AbortController().signal);
  await using scans = thread;
  await scans.scan(places);
  assert.deepEqual(found, []);

  const root = filesRoot('bench-1');
  mkdirSync(join(root, 'deep', 'er'), { recursive: true });
  writeFileSync(Buffer.concat([Buffer.from(join(root, 'deep', 'er', 'new-')), Buffer.from([0xff])]), '');
  writeFileSync(join(root, 'file-7'), 'changed');
  unlinkSync(join(root, 'file-9'));
  symlinkSync(filesRoot('bench-2'), join(root, 'link'));
  await scans.scan(places);
  const expected = ['differs bench-1 deep/er/new-\xff', 'differs bench-1 file-7', 'missing bench-1 file-9'];
  assert.deepEqual(new Set(found), new Set(expected));
  assert.equal(found.length, expected.length);
});

test('hands over what it finds in lots, and waits while they are on their way to the database', async () => {
  using place = scratch();
  const { places, filesRoot, thread, found, breaths } = await filledPlace(place, new AbortController().signal);
  await using scans = thread;
  for (let i = 0; i < FILES; i += 1) {
    unlinkSync(join(filesRoot('bench-0'), `file-${i}`));
    writeFileSync(join(filesRoot('bench-2'), `file-${i}`), 'changed');
  }
  await scans.scan(places);
  assert.equal(found.length, 2 * FILES);
  assert.ok(breaths() >= 4, `${breaths()} waits`);
});

test('ends when it is told to in the middle of a scan', async () => {
  using place = scratch();
  const stop = new AbortController();
  const { places, thread } = await filledPlace(place, stop.signal);
  await using scans = thread;
  const scanning = scans.scan(Array.from({ length: 1000 }, () => places).flat());
  stop.abort();
  await scanning;
});

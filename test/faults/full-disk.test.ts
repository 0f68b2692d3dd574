/**
 * No space and no inodes left: clear refusals, nothing half-made, only complete files announced; once there is room, all
 * continues.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { errorCode } from '../../src/foundation/base/errors.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import type { ApiAnswer } from '../support/api-client.ts';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { onPostgres } from '../support/postgres.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { checkedScratch, checkPlace, fakeClamd } from '../checks/check-place.ts';
import { loopDisk } from './loop-disk.ts';
import { smallDisk } from './small-disk.ts';

const QUIET = { BERTH_LOG_LEVEL: 'silent' };
const MIB = 1024 * 1024;
/** The log has no number of bytes for the second name. */
const HALVES = ['half', '半'.repeat(43)];

/** Everything that one directory leaves on the disk, by username. */
function onDisk({ config }: TestBerth): Record<string, string[]> {
  const paths = pathsOf(config);
  const names = (folder: string): string[] => readdirSync(folder).map((name) => name.replace(/\.user.*$/, ''));
  return {
    jails: names(paths.jails).filter((name) => name !== '.berth'),
    unfinished: names(paths.corner).filter((name) => name.startsWith('new-')),
    users: [...new Set(names(paths.userdb))],
    limits: names(paths.limits),
  };
}

const only = (name: string) => ({ jails: [name], unfinished: [], users: [name], limits: [name] });

async function refusesToCreate(berth: TestBerth, directory: TestDirectory): Promise<void> {
  const answer = await berth.send('POST', '/directories', { json: { directory: { name: 'No room' } } });
  assert.deepEqual([answer.status, answer.json], [507, { error: 'Not enough storage space' }]);
  const list = await berth.send('GET', '/directories');
  assert.equal((list.json as { data: unknown[] }).data.length, 1);
  assert.deepEqual(onDisk(berth), only(directory.username));
}

async function goesOn(berth: TestBerth): Promise<void> {
  const answer = await berth.send('POST', '/directories', { json: { directory: { name: 'Room again' } } });
  assert.equal(answer.status, 201);
}

test('a full disk: 507 and nothing left behind; uploads fail in the client and are not announced; then it goes on', async () => {
  using outside = scratch();
  // As in production, /run is no part of the disk.
  using place = scratch({ ...QUIET, BERTH_RUNTIME_DIR: join(outside.dir, 'run') });
  using disk = smallDisk(place.dir, 'size=24m');
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  writeFileSync(join(outside.dir, 'big'), Buffer.alloc(MIB));
  for (const name of HALVES) writeFileSync(join(place.dir, name), Buffer.alloc(8192));
  disk.fill();

  await refusesToCreate(berth, directory);
  const { output } = await sftp(outside.dir, directory.login, ['put big big']);
  assert.match(output, /write remote "\/files\/big": Failure|close remote: Failure/);

  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  for (const name of HALVES) {
    // There is room for a part of it.
    rmSync(join(place.dir, name));
    const handle = await session.open(name, 'w');
    await assert.rejects(session.write(handle, Buffer.alloc(20_000)), /Failure/);
    await session.close(handle);
  }

  disk.free();
  await goesOn(berth);
  await session.put('whole', 'data');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'whole');
  await wait(2500); // longer than a stable file takes to be found
  assert.deepEqual(
    (await berth.uploads(directory)).map(({ filename }) => filename),
    ['whole'],
  );
  assert.equal(berth.receiver.requests.length, 1);
  const { stdout } = await runHere(place.environment, 'explain', directory.id);
  assert.match(stdout, / Customer could not write big: Failure \(the disk is full\)\n/);
  assert.match(stdout, /\nNote: Customer could not write big: .* Make room on the machine’s disk\.\n/);
});

for (const [what, mounted] of [
  ['jails and database', (place: Scratch) => place.dir],
  ['the database alone', (place: Scratch) => place.config.stateDir],
] as const) {
  test(`several creates at once on a full disk (${what}): each is refused and nothing is left; then each goes through`, async () => {
    using outside = scratch();
    using place = scratch({ ...QUIET, BERTH_RUNTIME_DIR: join(outside.dir, 'run') });
    using disk = smallDisk(mounted(place), 'size=24m');
    await using berth = await startBerth(place);
    const directory = await berth.directory();
    const create = (): Promise<ApiAnswer> =>
      berth.send('POST', '/directories', { json: { directory: { name: 'At once' } } });
    const createAll = (): Promise<ApiAnswer[]> => Promise.all(Array.from({ length: 8 }, create));
    disk.fill();
    for (const { status, json } of [...(await createAll()), ...(await createAll())]) {
      assert.deepEqual([status, json], [507, { error: 'Not enough storage space' }]);
    }
    assert.deepEqual(onDisk(berth), only(directory.username));

    disk.free();
    const statuses = (await createAll()).map(({ status }) => status);
    assert.deepEqual(
      statuses,
      Array.from({ length: 8 }, () => 201),
    );
    const { json } = await berth.send('GET', '/directories');
    const { data } = json as { data: { sftp_username: string }[] };
    assert.deepEqual(onDisk(berth).jails?.toSorted(), data.map(({ sftp_username: name }) => name).toSorted());
    assert.equal(data.length, 9);
  });
}

test('only the state’s disk is full: uploads arrive, and are announced when there is room again', async () => {
  using place = scratch(QUIET);
  using disk = smallDisk(place.config.stateDir, 'size=24m');
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  disk.fill();
  await refusesToCreate(berth, directory);
  for (const name of ['a', 'b', 'c']) await session.put(name, name);
  const announced = async (): Promise<void> => {
    const names = [];
    for (let count = 0; count < 3; count += 1) names.push(webhookOf(await berth.receiver.next()).filename);
    assert.deepEqual(names.sort(), ['a', 'b', 'c']);
  };
  if (onPostgres) {
    await announced(); // the database has a disk of its own
  } else {
    await wait(1500);
    assert.equal(berth.receiver.requests.length, 0);
  }
  const health = await berth.send('GET', '//healthz');
  assert.equal(health.status, 200);

  disk.free();
  if (!onPostgres) await announced();
  await goesOn(berth);
});

test('no inodes left: the same', async () => {
  using place = scratch(QUIET);
  using disk = smallDisk(place.dir, 'size=64m,nr_inodes=400');
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  disk.fillInodes();
  await refusesToCreate(berth, directory);
  await assert.rejects(session.put('new', 'data'), /Failure/);

  disk.free();
  await goesOn(berth);
  await session.put('new', 'data');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'new');
  await until('nothing is left to apply', async () => (await berth.uploads(directory)).length === 1);
});

test('no inodes left: a release is refused, and a rejected file is in the quarantine once there are', async () => {
  const { place, socket } = checkedScratch(QUIET);
  using _ = place;
  using disk = smallDisk(place.config.jailDir, 'size=64m,nr_inodes=400');
  await using _clamd = await fakeClamd(socket);
  await using at = await checkPlace(place);
  const { berth, directory } = at;
  const other = await berth.directory();
  const { quarantine, transit } = pathsOf(berth.config);
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.mkdir('d');
  await session.put('d/first', 'bad');
  await until('it is rejected', () => existsSync(join(quarantine, directory.id)));
  await session.rmdir('d');
  await at.put('second', 'good', other);
  await berth.receiver.next();
  disk.fillInodes();
  const [first] = await at.held();
  assert.match((await at.run('release', first?.id ?? '')).stderr, /: Not enough storage space\n$/);
  // The scanner rejects now what it passed before; its directory has no folder in the quarantine.
  writeFileSync(join(other.files, 'second'), 'bad!');
  await until('it is rejected', async () => (await at.history()).includes('rejected second'));
  assert.equal(existsSync(join(quarantine, other.id)), false);
  disk.free();
  await until('it is in the quarantine', () => existsSync(join(quarantine, other.id)));
  assert.deepEqual(readdirSync(transit), []);
  assert.equal((await at.run('release', first?.id ?? '')).status, 0);
});

test('a deleted directory makes room although the full disk cannot rename its jail', async () => {
  using outside = scratch();
  using place = scratch({ ...QUIET, BERTH_RUNTIME_DIR: join(outside.dir, 'run') });
  using _disk = loopDisk(place.config.jailDir, { image: join(outside.dir, 'image'), mib: 32 });
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const paths = pathsOf(berth.config);
  const filler = join(paths.jails, 'filler');
  const one = join(paths.jails, 'one');
  writeFileSync(one, '');
  // Synced in between: what ext4 has set aside for blocks that are still in memory is free afterwards.
  const fill = 'for i in 1 2 3; do cat /dev/zero >>"$1" 2>/dev/null || :; sync -f "$1"; done';
  execFileSync('sh', ['-c', fill, 'sh', join(directory.files, 'big')]);
  // Names as long as the jail's, until each block of the folder is full.
  for (let index = 0; index < 12_000; index += 1) {
    try {
      linkSync(one, join(paths.trash, String(index).padStart(directory.username.length, '-')));
    } catch (error) {
      assert.equal(errorCode(error), 'ENOSPC');
    }
  }
  assert.throws(() => mkdirSync(filler), { code: 'ENOSPC' });
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}`)).status, 204);
  await until('its files are removed', () => !existsSync(paths.jail(directory.username)));
  mkdirSync(filler);
});

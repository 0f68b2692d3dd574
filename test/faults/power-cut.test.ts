/**
 * Power cuts at random moments, while directories are made, changed, deleted and written to. Afterwards exactly the users
 * whom the last answers admit can log in, and every announced file is there: as soon as sshd runs, before `berth serve`
 * does.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import PQueue from 'p-queue';
import { loadTlsPair } from '../../src/interfaces/http/certificate.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { issueKey } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { rounds } from '../support/long.ts';
import { scratch } from '../support/scratch.ts';
import { loopDisk } from './loop-disk.ts';
import { type Contents, type Known, powerPlace } from './power-place.ts';
import { SEED } from '../support/seed.ts';

const ROUNDS = rounds(2, 20);

/** sshd takes 32 from one address that have not logged in yet. */
const logins = new PQueue({ concurrency: 16 });

test('power cuts at random moments: the last answers hold, and announced files are whole', async (t) => {
  await using place = await powerPlace(SEED);
  for (let round = 1; round <= ROUNDS; round += 1) {
    const known = await place.workUntilTheCut(round);
    const live = known.filter(({ state }) => state === 'live');
    const deleted = known.filter(({ state }) => state === 'deleted');
    t.diagnostic(
      `round ${round}: ${live.length} live, ${deleted.length} deleted, ${place.announced().length} announced`,
    );
    assert.ok(live.length > 0);

    await place.startSshd();
    await logins.addAll(known.map((directory) => () => checkLogins(place.getsIn, directory)));

    await place.startServe();
    const names = (await place.list()).sort();
    assert.deepEqual(place.jails().sort(), names, 'the list equals the disk');
    assert.deepEqual(place.users().sort(), names);
    for (const { username } of live) assert.ok(names.includes(username), `${username} was answered with 201`);
    for (const { username } of deleted) assert.ok(!names.includes(username), `${username} was answered with 204`);
    await until('what is there was announced or is partial', async () => {
      const decided = new Set([...place.announced().map(({ name }) => name), ...(await place.partial())]);
      return place.files().every((name) => decided.has(name));
    });
    for (const { name, size, content } of place.announced()) {
      const there = place.contentAt(name);
      assert.equal(size, content.length, `${name} was announced with that size`);
      assert.ok(there === content, `${name}, announced with ${size} bytes, ${inWords(there)}`);
    }
  }
});

test('power cuts while the API places and removes files: what it answered with 201, 200 or 204 stays true', async (t) => {
  // On one disk, the database's commits would take the files with them.
  await using place = await powerPlace(SEED, { of: 'jails' });
  const put = [new Map<string, Contents>(), new Map<string, Contents>()];
  const names = (): string[] => put.flatMap((files) => [...files.keys()]);
  for (let round = 1; round <= ROUNDS; round += 1) {
    // Once without the clients that put files, because their syncs also flush the removals.
    const stays = round % 2 === 1;
    const uploads = await place.handleFilesUntilTheCut(round, { put: round === 2 ? [] : put, stays });
    const deleted = [...uploads.values()].filter(({ state }) => state === 'deleted');
    t.diagnostic(`round ${round}: ${names().length} put, ${deleted.length} of ${uploads.size} deleted`);
    assert.ok(names().length > 0 && deleted.length > 0);
    const present = (): Map<string, string | undefined> =>
      new Map(names().map((name) => [name, place.contentAt(name)]));
    const before = present();
    for (const [name, contents] of put.flatMap((files) => [...files]))
      assert.ok(contents.includes(before.get(name)), `${name} is what was put there`);
    const left = deleted.filter(({ name }) => place.contentAt(name) !== undefined);
    t.diagnostic(`${left.length} removals waited for a session`);
    if (!stays) assert.deepEqual(left, [], 'they were answered with 204');

    await place.startSshd();
    await place.startServe();
    const listed = new Set((await place.listed()).map(({ filename }) => filename));
    const unlisted = [...uploads.values()].filter(({ name }) => !listed.has(name));
    await until(
      'no removal is left',
      () => unlisted.every(({ name }) => place.contentAt(name) === undefined) && place.inTransit().length === 0,
    );
    assert.deepEqual(present(), before);
    for (const { name, state } of uploads.values()) {
      if (state === 'live') assert.ok(listed.has(name), `${name} is listed`);
      if (state === 'deleted') assert.ok(!listed.has(name), `${name} is not listed`);
      // Both or neither, whether or not the answer came.
      assert.equal(place.contentAt(name), listed.has(name) ? `${name}\n`.repeat(200) : undefined, name);
    }
    for (const name of names()) assert.ok(!listed.has(name), `${name} is no upload`);
    // From now on, the state that the power cut left counts as known.
    for (const files of put) for (const name of files.keys()) files.set(name, [before.get(name)]);
  }
  assert.ok(place.announced().every(({ name }) => !name.startsWith('put/')));
});

function inWords(content: string | undefined): string {
  if (content === undefined) return 'is not there';
  const zeros = content.split('\0').length - 1;
  return `has ${content.length} bytes on the disk, ${zeros} of them zeros`;
}

async function checkLogins(getsIn: (login: object) => Promise<boolean>, directory: Known): Promise<void> {
  const { username, state, login, revoked } = directory;
  if (state === 'unsure') return; // the cut came before the answer
  if (state === 'live') assert.ok(await getsIn({ username, ...login }), `${username} gets in`);
  const last = revoked.at(-1);
  if (last) assert.ok(!(await getsIn({ username, ...last })), `what was revoked of ${username} gets nobody in`);
}

test('a power cut right after the first start: host keys and certificate stay the same', async () => {
  using outside = scratch();
  using place = scratch({ BERTH_RUNTIME_DIR: join(outside.dir, 'run'), BERTH_SFTP_PORT: String(await freePort()) });
  using disk = loopDisk(place.dir, { image: join(outside.dir, 'image'), mib: 64 });
  const { environment, config } = place;
  const { hostKeys } = pathsOf(config);
  const keys = (): string[] =>
    readdirSync(hostKeys)
      .sort()
      .map((name) => `${name}: ${readFileSync(join(hostKeys, name), 'utf8')}`);
  assert.equal((await runCommand(environment, 'prepare')).status, 0);
  const before = keys();
  assert.equal(before.length, 6);
  disk.cutPower();
  disk.mountAgain();
  assert.deepEqual(keys(), before);

  const { cert } = await loadTlsPair(config.tls);
  disk.cutPower();
  disk.mountAgain();
  assert.deepEqual((await loadTlsPair(config.tls)).cert, cert);
});

test('a host key that a power cut has emptied is made again, with a line that says so; the others stay', async () => {
  using place = scratch({ BERTH_SFTP_PORT: '2222' });
  const { hostKeys } = pathsOf(place.config);
  assert.equal((await runCommand(place.environment, 'prepare')).status, 0);
  const key = (type: string): string => join(hostKeys, `ssh_host_${type}_key`);
  const other = readFileSync(key('rsa'), 'utf8');
  writeFileSync(key('ed25519'), '');
  writeFileSync(`${key('ed25519')}.pub`, '');
  await issueKey(place.config);
  const { status, stderr } = await runCommand({ ...place.environment, BERTH_LOG_LEVEL: 'warn' }, 'prepare');
  assert.equal(status, 0);
  assert.match(stderr, /"host_keys":\["ed25519"\].*made again/);
  assert.match(readFileSync(key('ed25519'), 'utf8'), /PRIVATE KEY/);
  assert.match(readFileSync(`${key('ed25519')}.pub`, 'utf8'), /^ssh-ed25519 /);
  assert.equal(readFileSync(key('rsa'), 'utf8'), other);
});

/** Renames that sshd refuses: no event for the other name, and rows stay with their files. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { rounds } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

type Event = readonly [filename: string, size: number];

const byName = ([a]: Event, [b]: Event): number => (a < b ? -1 : 1);

/** How long one that must not come is waited for, in ms. */
const STRAGGLERS = 1000;
const MANY = rounds(500, 2000);

/** The webhooks so far, by name: at least `count`, and that of `last`, which was uploaded after them. */
async function eventsUntil(berth: TestBerth, last: string, count: number): Promise<Event[]> {
  const isLast = (): boolean => berth.receiver.requests.some((request) => webhookOf(request).filename === last);
  await until(`${last} is announced`, () => isLast() && berth.receiver.requests.length > count);
  await wait(STRAGGLERS); // uploads that end together are put on the disk beside each other
  return berth.receiver.requests
    .map(webhookOf)
    .map(({ filename, size_bytes }) => [filename, size_bytes] as const)
    .filter(([filename]) => filename !== last)
    .toSorted(byName);
}

async function rowsOf(berth: TestBerth, directory: TestDirectory): Promise<Event[]> {
  const rows = await berth.uploads(directory);
  return rows.map(({ filename, size_bytes }) => [filename, size_bytes] as const).toSorted(byName);
}

test('a file whose rename is refused while it is written is announced by its own name', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  await session.put('taken', 'as it was');
  const handle = await session.open('mine', CREATE_ANEW);
  assert.ok(handle);
  assert.notEqual((await session.rename('mine', 'taken')).status, 0);
  await session.request(FXP.WRITE, handle, 0n, 'new');
  await session.request(FXP.CLOSE, handle);
  await session.put('last', '');
  assert.deepEqual(await eventsUntil(berth, 'last', 2), [
    ['mine', 3],
    ['taken', 9],
  ]);
});

test('an upload, a refused rename onto another file, and a removal before berth inspects it', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  await session.put('taken', 'as it was');
  await until('it has a row', async () => (await berth.uploads(directory)).length === 1);
  const [before] = await berth.uploads(directory);
  for (let round = 0; round < 100; round++) {
    // sshd numbers its handles from 0 and gives the lowest free number, so nothing here has to be waited for.
    const handle = Buffer.alloc(4);
    const name = round % 2 ? `x${round}.part` : `x${round}`;
    void session.request(FXP.OPEN, name, CREATE_ANEW, NO_ATTRIBUTES);
    void session.request(FXP.WRITE, handle, 0n, 'as it was');
    void session.request(FXP.CLOSE, handle);
    void session.rename(name, 'taken');
    void session.request(FXP.REMOVE, name);
  }
  await session.put('last', '');
  const events = await eventsUntil(berth, 'last', 1);
  assert.equal(events.filter(([filename]) => filename === 'taken').length, 1);
  assert.equal(events.filter(([filename]) => filename.endsWith('.part')).length, 0);
  const after = (await berth.uploads(directory)).filter(({ filename }) => filename !== 'last');
  assert.deepEqual(after, [before]);
  assert.equal(await berth.storage(directory), 9);
});

test('folders: a refused rename onto one with the same names mixes no rows, and into itself goes nowhere', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  for (const folder of ['a', 'b']) {
    await session.request(FXP.MKDIR, folder, NO_ATTRIBUTES);
    for (let i = 0; i < 5; i++) await session.put(`${folder}/${i}`, folder === 'a' ? 'aa' : 'b');
  }
  void session.rename('a', 'b');
  void session.replace('a', 'b');
  void session.replace('a', 'a/0');
  void session.replace('a', 'a/under');
  void session.rename('b', 'b');
  assert.equal((await session.rename('a', 'c')).status, 0);
  await session.put('last', '');
  assert.equal((await eventsUntil(berth, 'last', 10)).length, 10);
  const expected = [0, 1, 2, 3, 4].flatMap((i): Event[] => [
    [`b/${i}`, 1],
    [`c/${i}`, 2],
  ]);
  const isMoved = async (): Promise<boolean> =>
    (await rowsOf(berth, directory)).filter(([name]) => name.startsWith('c/')).length === 5;
  await until('rows have followed', isMoved);
  assert.deepEqual(await rowsOf(berth, directory), [...expected, ['last', 0] as const].toSorted(byName));
  assert.equal(await berth.storage(directory), 15);
});

test('an upload that replaces an announced file by its rename is announced', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  await session.put('report', 'old');
  for (let round = 1; round <= 20; round++) {
    void session.request(FXP.OPEN, 'report.part', CREATE_ANEW, NO_ATTRIBUTES);
    void session.request(FXP.WRITE, Buffer.alloc(4), 0n, 'x'.repeat(round));
    void session.request(FXP.CLOSE, Buffer.alloc(4));
    assert.equal((await session.replace('report.part', 'report')).status, 0);
    await until('it is announced', () => berth.receiver.requests.length === round + 1);
    const hook = webhookOf(await berth.receiver.next());
    assert.equal(hook.filename, 'report');
  }
  assert.deepEqual(await rowsOf(berth, directory), [['report', 20]]);
  assert.deepEqual(readdirSync(directory.files), ['report']);
});

test(`${MANY} files in a renamed folder keep their rows, and no webhook is sent for them`, async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await berth.stop();
  mkdirSync(join(directory.files, 'a'));
  for (let i = 0; i < MANY; i++) writeFileSync(join(directory.files, 'a', `${i}`), '');
  await berth.start();
  await until('all are recorded', async () => (await berth.uploads(directory)).length === MANY);
  const before = new Map((await berth.uploads(directory)).map(({ id, filename }) => [id, filename]));
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  await session.rename('a', 'b');
  const isMoved = async (): Promise<boolean> =>
    (await berth.uploads(directory)).every(({ filename }) => filename.startsWith('b/'));
  await until('all have moved', isMoved);
  for (const { id, filename } of await berth.uploads(directory)) {
    assert.equal(filename, before.get(id)?.replace('a/', 'b/'));
  }
  await until('the webhooks of the first names are there', () => berth.receiver.requests.length >= MANY);
  assert.equal(berth.receiver.requests.length, MANY);
});

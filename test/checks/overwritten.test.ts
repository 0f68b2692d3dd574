/** Files that have passed, and whose bytes change afterwards while name, size and time stay the same: nobody gets those bytes. */
import assert from 'node:assert/strict';
import { utimesSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type Upload, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, OPEN, rawSftp } from '../support/raw-sftp.ts';
import { type CheckPlace, EICAR, fakeClamd, sharedChecks } from './check-place.ts';

const { socket, shared } = sharedChecks();

/** Access and modification time (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

/** Longer than a session's work takes to appear in a row, in ms. */
const NOTICED_MS = 300;

/** A place whose checker rejects only "bad" bytes, and a file that is exactly EICAR's. */
async function clamdPlace() {
  await using stack = new AsyncDisposableStack();
  const clamd = stack.use(
    await fakeClamd(socket, ({ content, answer }) =>
      answer(content.includes('bad') || String(content) === EICAR ? 'stream: Bad-Signature FOUND' : 'stream: OK'),
    ),
  );
  const at = stack.use(await shared());
  const { berth, directory } = at;
  const get = (path: string) => berth.send('GET', `/directories/${directory.id}/${path}`);
  const owned = stack.move();
  return {
    ...at,
    clamd,
    session: async () => {
      const connection = await berth.connect(directory);
      return { connection, session: await rawSftp(connection) };
    },
    /** Puts a file that passes. */
    async passed(name: string, data: string): Promise<Upload> {
      const { connection, session } = await this.session();
      await using _ = connection;
      const handle = await session.open(name, CREATE_ANEW);
      assert.ok(handle);
      await session.request(FXP.WRITE, handle, 0n, data);
      await session.request(FXP.FSETSTAT, handle, ...TIMES);
      await session.request(FXP.CLOSE, handle);
      await until('it has passed', async () => (await at.listed()).includes(name));
      const found = (await berth.uploads(directory)).find(({ filename }) => filename === name);
      assert.ok(found);
      return found;
    },
    /** All content that is served of the file, by its id and by its path. */
    async served(name: string, id: string): Promise<string[]> {
      const answers = await Promise.all([get(`uploads/${id}/content`), get(`files/${name}`)]);
      return answers.filter(({ status }) => status === 200).map(({ text }) => text);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Requests the file repeatedly until `isOver`: the bad bytes are never sent. */
async function neverServed(
  at: Awaited<ReturnType<typeof clamdPlace>>,
  { name, id }: { name: string; id: string },
  isBad: (text: string) => boolean,
  isOver: () => Promise<boolean>,
): Promise<void> {
  await until(`${name} is held back`, async () => {
    assert.deepEqual((await at.served(name, id)).filter(isBad), []);
    return isOver();
  });
  assert.deepEqual((await at.served(name, id)).filter(isBad), []);
}

const isState = (at: Pick<CheckPlace, 'states'>, state: string) => async () => (await at.states()).includes(state);
const isBad = (text: string): boolean => text.includes('bad');

test('overwritten with as many bytes and the time of before, and cut off: partial', async () => {
  await using at = await clamdPlace();
  const { id } = await at.passed('a', 'good bytes');
  const { connection, session } = await at.session();
  const handle = await session.open('a', OPEN.write);
  assert.ok(handle);
  await session.request(FXP.WRITE, handle, 0n, 'bad  bytes');
  await session.request(FXP.FSETSTAT, handle, ...TIMES);
  assert.deepEqual((await at.served('a', id)).filter(isBad), []);
  connection.drop();
  await neverServed(at, { name: 'a', id }, isBad, isState(at, 'a partial'));
});

test('a handle that is renamed over it, or over a file that the API has placed, and cut off: partial', async () => {
  await using at = await clamdPlace();
  const { id } = await at.passed('a', 'good bytes');
  const { berth, directory } = at;
  const put = await berth.send('PUT', `/directories/${directory.id}/files/b`, { body: 'good bytes' });
  assert.equal(put.status, 201);
  for (const name of ['a', 'b']) {
    utimesSync(`${directory.files}/${name}`, 1_700_000_000, 1_700_000_000);
    const { connection, session } = await at.session();
    const handle = await session.open('other', CREATE_ANEW);
    assert.ok(handle);
    await session.request(FXP.WRITE, handle, 0n, 'bad  bytes');
    await session.request(FXP.FSETSTAT, handle, ...TIMES);
    assert.equal((await session.replace('other', name)).status, 0);
    await wait(NOTICED_MS);
    assert.deepEqual((await at.served(name, id)).filter(isBad), []);
    connection.drop();
    await neverServed(at, { name, id }, isBad, isState(at, `${name} partial`));
  }
});

test('overwritten in place where the API has put it, and cut off: partial', async () => {
  await using at = await clamdPlace();
  const { berth, directory } = at;
  await berth.send('PUT', `/directories/${directory.id}/files/a`, { body: 'good bytes' });
  const { connection, session } = await at.session();
  await session.request(FXP.SETSTAT, 'a', ...TIMES);
  await wait(NOTICED_MS);
  const handle = await session.open('a', OPEN.write);
  assert.ok(handle);
  await session.request(FXP.WRITE, handle, 0n, 'bad  bytes');
  await session.request(FXP.FSETSTAT, handle, ...TIMES);
  connection.drop();
  await neverServed(at, { name: 'a', id: 'none' }, isBad, isState(at, 'a partial'));
});

test('resized to what the checker knows, by name and by a handle: checked again, and rejected', async () => {
  await using at = await clamdPlace();
  const isEicar = (text: string): boolean => text === EICAR;
  for (const [name, by] of [
    ['a', 'name'],
    ['b', 'handle'],
  ] as const) {
    const { id } = await at.passed(name, `${EICAR} and more`);
    const { connection, session } = await at.session();
    await using _ = connection;
    const size = [1, BigInt(EICAR.length)] as const;
    if (by === 'name') assert.equal((await session.request(FXP.SETSTAT, name, ...size)).status, 0);
    else {
      const handle = await session.open(name, OPEN.write);
      assert.ok(handle);
      await session.request(FXP.FSETSTAT, handle, ...size);
      await session.request(FXP.CLOSE, handle);
    }
    await session.request(FXP.SETSTAT, name, ...TIMES);
    const isRejected = async (): Promise<boolean> =>
      (await at.history()).filter((text) => text === `rejected ${name}`).length === 1;
    await neverServed(at, { name, id }, isEicar, isRejected);
  }
});

test('overwritten without a session, with the time of before: checked again, and rejected', async () => {
  await using at = await clamdPlace();
  const { id } = await at.passed('a', 'good bytes');
  const path = `${at.directory.files}/a`;
  writeFileSync(path, 'bad  bytes', { flag: 'r+' });
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  await neverServed(at, { name: 'a', id }, isBad, async () => (await at.history()).includes('rejected a'));
  assert.deepEqual(await at.listed(), []);
});

test('renamed and dated: checked again, served under the same id, and not announced again', async () => {
  await using at = await clamdPlace();
  const { berth, clamd } = at;
  const { id, uploaded_at } = await at.passed('a', 'good bytes');
  const { connection, session } = await at.session();
  await using _ = connection;
  assert.equal((await session.rename('a', 'b')).status, 0);
  await session.request(FXP.SETSTAT, 'b', ...TIMES);
  await until('it is served again', async () => (await at.served('b', id)).length === 2);
  const found = await berth.uploads(at.directory);
  assert.deepEqual(
    found.map((upload) => [upload.id, upload.filename, upload.uploaded_at]),
    [[id, 'b', uploaded_at]],
  );
  assert.ok(clamd.asked.length > 1);
  await wait(3000);
  assert.deepEqual(
    berth.receiver.requests.map((request) => webhookOf(request).filename),
    ['a'],
  );
  assert.deepEqual(
    (await at.history()).filter((text) => text.startsWith('uploaded')),
    ['uploaded a'],
  );
});

/** GET /api/v1/directories/:id/uploads. Tests with a real sshd show that uploads become rows. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { messageOf } from '../../src/foundation/base/problems.ts';
import type { FileState } from '../../src/foundation/db/schema.ts';
import { dataOf, TIMESTAMP } from '../support/field-sets.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';

const NO_TIME = messageOf(['not_a_time']);

const shared = sharedHosted();

async function addFile(api: Api, directory_id: string, path: Buffer, uploaded_at: number, state: FileState) {
  await api.database.db
    .insertInto('files')
    .values({
      id: randomUUID(),
      directory_id,
      path,
      size_bytes: path.length,
      state,
      uploaded_at,
      inode: 1,
      mtime: 1,
      source: 'log',
      session_pid: null,
    })
    .execute();
}

test('200: complete files, newest first, with four fields; bytes that are no UTF-8 are shown with U+FFFD', async () => {
  const api = await shared();
  const { id } = await api.directory();
  assert.deepEqual((await api.send('GET', `/directories/${id}/uploads`)).json, { data: [] });
  const at = Date.parse('2026-01-02T03:04:05Z') * 1000;
  await addFile(api, id, Buffer.from('a/b.csv'), at + 1, 'uploaded');
  await addFile(api, id, Buffer.from([0x66, 0xff, 0x78]), at + 2, 'uploaded');
  await addFile(api, id, Buffer.from('half'), at + 3, 'partial');
  await addFile(api, id, Buffer.from('x.filepart'), at + 4, 'waiting');
  const answer = await api.send('GET', `/directories/${id}/uploads`);
  assert.equal(answer.status, 200);
  const rows = dataOf<Record<string, unknown>[]>(answer);
  assert.deepEqual(
    rows.map(({ filename, size_bytes, uploaded_at }) => [filename, size_bytes, uploaded_at]),
    [
      ['f\u{FFFD}x', 3, '2026-01-02T03:04:05.000002Z'],
      ['a/b.csv', 7, '2026-01-02T03:04:05.000001Z'],
    ],
  );
  for (const row of rows) {
    assert.deepEqual(Object.keys(row), ['id', 'filename', 'size_bytes', 'uploaded_at']);
    assert.match(String(row['uploaded_at']), TIMESTAMP);
  }
});

test('200: limit and after walk through the list by the Link header', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (let i = 0; i < 5; i += 1) await addFile(api, id, Buffer.from(`f${i}`), 7, 'uploaded');
  const seen: string[] = [];
  const sizes: number[] = [];
  for (let path: string | undefined = `/directories/${id}/uploads?limit=2`; path !== undefined;) {
    const answer = await api.send('GET', path);
    const rows = dataOf<{ filename: string }[]>(answer);
    sizes.push(rows.length);
    seen.push(...rows.map(({ filename }) => filename));
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(sizes, [2, 2, 1]);
  assert.deepEqual(seen.sort(), ['f0', 'f1', 'f2', 'f3', 'f4'], 'each once, though all are of the same moment');
});

test('the Link header leads on when each page is fetched and removed before the next one is asked for', async () => {
  const api = await shared();
  const { id } = await api.directory();
  for (let i = 0; i < 5; i += 1) await addFile(api, id, Buffer.from(`f${i}`), 7 + (i >> 1), 'uploaded');
  const seen: string[] = [];
  for (let path: string | undefined = `/directories/${id}/uploads?limit=2`; path !== undefined;) {
    const answer = await api.send('GET', path);
    assert.equal(answer.status, 200, answer.text);
    for (const upload of dataOf<{ id: string; filename: string }[]>(answer)) {
      seen.push(upload.filename);
      await api.database.db.deleteFrom('files').where('id', '=', upload.id).execute();
    }
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(seen.sort(), ['f0', 'f1', 'f2', 'f3', 'f4']);
});

test('200: filename finds the one file of that name, and none that only begins with it', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const at = Date.parse('2026-01-02T03:04:05Z') * 1000;
  const long = `${'ä'.repeat(100)}/`.repeat(15);
  for (const [i, name] of ['order1', 'order10', 'in/order1', 'ORDER1', `${long}a`, `${long}b`, 'a b%2F&c'].entries())
    await addFile(api, id, Buffer.from(name), at + i, 'uploaded');
  await addFile(api, id, Buffer.from([0x66, 0xff]), at + 20, 'uploaded');
  await addFile(api, id, Buffer.from([0x66, 0xfe]), at + 21, 'uploaded');
  await addFile(api, id, Buffer.from('partial'), at + 30, 'partial');
  const found = async (filename: string, more = ''): Promise<string[]> => {
    const answer = await api.send('GET', `/directories/${id}/uploads?filename=${encodeURIComponent(filename)}${more}`);
    return dataOf<{ filename: string }[]>(answer).map((upload) => upload.filename);
  };
  for (const name of ['order1', 'in/order1', `${long}b`, 'a b%2F&c']) assert.deepEqual(await found(name), [name]);
  for (const name of ['order', '', 'partial', 'order1\0', '/order1']) assert.deepEqual(await found(name), [], name);
  assert.deepEqual(await found('f\u{FFFD}'), ['f\u{FFFD}', 'f\u{FFFD}'], 'names whose bytes are not UTF-8');
  assert.deepEqual(await found('order1', '&since=2026-01-02T03:04:05.000001Z'), [], 'other filters count, too');
  assert.deepEqual(await found('order1', '&limit=1&prefix=x'), []);
  assert.deepEqual(await found('order1', '&limit=1'), ['order1']);
});

test('200: a long list, which is built in parts, equals its pages', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const rows = Array.from({ length: 1001 }, (_, i) => ({
    id: randomUUID(),
    directory_id: id,
    path: Buffer.from(`f${i}`),
    size_bytes: i,
    state: 'uploaded' as const,
    uploaded_at: Math.floor(i / 7),
    inode: i,
    mtime: 1,
    source: 'log' as const,
    session_pid: null,
  }));
  for (let i = 0; i < rows.length; i += 200) {
    await api.database.db
      .insertInto('files')
      .values(rows.slice(i, i + 200))
      .execute();
  }
  const whole = await api.send('GET', `/directories/${id}/uploads`);
  const page = await api.send('GET', `/directories/${id}/uploads?limit=1000`);
  const uploads = dataOf<{ id: string }[]>(page);
  const [rest] = dataOf<{ id: string }[]>(
    await api.send('GET', `/directories/${id}/uploads?after=${uploads.at(-1)?.id}`),
  );
  assert.equal(whole.text, JSON.stringify({ data: [...uploads, rest] }));
  const after = await api.send('GET', `/directories/${id}/uploads?after=${uploads[0]?.id}`);
  assert.deepEqual(dataOf(after), [...uploads.slice(1), rest]);
});

test('200: prefix and since narrow the list and its pages, whatever lies between', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const at = Date.parse('2026-01-02T03:04:05Z') * 1000;
  for (let i = 0; i < 1200; i += 1) await addFile(api, id, Buffer.from(`out/${i}`), at + 10 + i, 'partial');
  for (let i = 0; i < 6; i += 1)
    await addFile(api, id, Buffer.from(`${i % 2 ? 'ä %&/' : 'b/'}${i}`), at + i, 'uploaded');
  await addFile(api, id, Buffer.from([0x63, 0xff, 0x64]), at + 6, 'uploaded');
  const names = async (query: string): Promise<string[]> => {
    const found: string[] = [];
    for (let path: string | undefined = `/directories/${id}/uploads?${query}`; path !== undefined;) {
      const answer = await api.send('GET', path);
      found.push(...dataOf<{ filename: string }[]>(answer).map(({ filename }) => filename));
      path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
    }
    return found;
  };
  const odd = ['ä %&/5', 'ä %&/3', 'ä %&/1'];
  const prefix = `prefix=${encodeURIComponent('ä %&/')}`;
  assert.deepEqual(await names(prefix), odd);
  assert.deepEqual(await names(`${prefix}&limit=1`), odd);
  assert.deepEqual(await names(`${prefix}&limit=1&since=2026-01-02T03:04:05.000003Z`), odd.slice(0, 2));
  assert.deepEqual(await names('since=2026-01-02T04:04:05.000006%2B01:00'), ['c\u{FFFD}d']);
  assert.deepEqual(await names(`prefix=${encodeURIComponent('c\u{FFFD}')}`), ['c\u{FFFD}d']);
  assert.deepEqual(await names('prefix=out'), []);
  for (const since of ['yesterday', '2026-01-02', '2026-13-02T00:00:00Z', '2026-02-29T00:00:00Z', '']) {
    const { status, json } = await api.send('GET', `/directories/${id}/uploads?since=${since}`);
    assert.deepEqual([status, json], [422, { errors: { since: [NO_TIME] } }], since);
  }
  const { json } = await api.send('GET', `/directories/${id}/uploads?since=2026-01-02T03:04:05+01:00`);
  const errors = [
    'is invalid: in a URL write the + of its zone as %2B, or the time in UTC, such as 2026-11-22T09:30:00Z',
  ];
  assert.deepEqual(json, { errors: { since: errors } });
});

test('200: one upload; 404 for other ids, incomplete files and uploads of other directories', async () => {
  const api = await shared();
  const { id } = await api.directory();
  const other = await api.directory();
  await addFile(api, id, Buffer.from('a'), 1, 'uploaded');
  await addFile(api, id, Buffer.from('b'), 2, 'partial');
  const rows = await api.database.db
    .selectFrom('files')
    .select('id')
    .where('directory_id', '=', id)
    .orderBy('path')
    .execute();
  const [complete, partial] = rows.map((row) => row.id);
  const { json } = await api.send('GET', `/directories/${id}/uploads/${complete}`);
  const [listed] = dataOf<object[]>(await api.send('GET', `/directories/${id}/uploads`));
  assert.deepEqual(json, { data: listed });
  for (const path of [`${id}/uploads/${partial}`, `${id}/uploads/x`, `${other.id}/uploads/${complete}`]) {
    const answer = await api.send('GET', `/directories/${path}`);
    assert.deepEqual([answer.status, answer.json], [404, { error: 'Upload not found' }], path);
  }
  assert.equal((await (await api.account('pro')).send('GET', `/directories/${id}/uploads/${complete}`)).status, 404);
});

/** GET …/uploads/:upload_id/content: the bytes of a file, whole and in ranges, and never others. */
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { type RawConnection, rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { filesPlace } from './files-place.ts';

/** Large enough that most of it stays on the disk while a client does not read. */
const LARGE = 64 * 1024 * 1024;

const shared = sharedHosted();

/** What puts a file there as if it had been uploaded, and asks for it. */
async function filesOf(api: Api) {
  const place = await filesPlace(api);
  const { id, root } = place;
  const path = `/directories/${id}/uploads`;
  async function upload(name: Buffer | string, content: Buffer | string): Promise<string> {
    const file = Buffer.concat([Buffer.from(`${root}/`), Buffer.from(name)]);
    writeFileSync(file, content);
    return record(api, id, Buffer.from(name), file);
  }
  const get = (upload_id: string, headers: Record<string, string> = {}, method = 'GET') =>
    api.send(method, `${path}/${upload_id}/content`, { headers });
  return { ...place, path, upload, get };
}

async function record(api: Api, directory_id: string, path: Buffer, file: Buffer): Promise<string> {
  const row = { id: randomUUID(), directory_id, path, state: 'uploaded', uploaded_at: 1, source: 'log' } as const;
  const stat = fileStat(statSync(file));
  await api.database.db
    .insertInto('files')
    .values({ ...row, ...stat, session_pid: null })
    .execute();
  return row.id;
}

/** Files that this process has open below a folder. */
function openBelow(folder: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder);
    } catch {
      return false;
    }
  }).length;
}

test('200, 206, 304, 416 and HEAD: the bytes that were asked for, with headers that say which', async () => {
  const files = await filesOf(await shared());
  const id = await files.upload('ten.txt', '0123456789');
  const whole = await files.get(id);
  const etag = String(whole.headers.etag);
  assert.match(etag, /^"[^"]+"$/);
  assert.deepEqual([whole.status, whole.text], [200, '0123456789']);
  const { headers } = whole;
  assert.deepEqual(
    [headers['content-type'], headers['content-length'], headers['x-content-type-options'], headers['accept-ranges']],
    ['application/octet-stream', '10', 'nosniff', 'bytes'],
  );
  assert.equal(headers['content-disposition'], `attachment; filename="ten.txt"; filename*=UTF-8''ten.txt`);
  const cases: [Record<string, string>, number, string, string?][] = [
    [{ range: 'bytes=2-4' }, 206, '234', 'bytes 2-4/10'],
    [{ range: 'bytes=7-' }, 206, '789', 'bytes 7-9/10'],
    [{ range: 'bytes=7-99' }, 206, '789', 'bytes 7-9/10'],
    [{ range: 'bytes=-2' }, 206, '89', 'bytes 8-9/10'],
    [{ range: 'bytes=-20' }, 206, '0123456789', 'bytes 0-9/10'],
    [{ range: 'bytes=10-' }, 416, '{"error":"Range not satisfiable"}', 'bytes */10'],
    [{ range: 'bytes=-0' }, 416, '{"error":"Range not satisfiable"}', 'bytes */10'],
    [{ range: 'bytes=99999999999999999999-' }, 416, '{"error":"Range not satisfiable"}', 'bytes */10'],
    [{ range: 'bytes=4-2' }, 200, '0123456789'],
    [{ range: 'bytes=0-1,4-5' }, 200, '0123456789'],
    [{ range: 'bytes=-' }, 200, '0123456789'],
    [{ range: 'lines=1-2' }, 200, '0123456789'],
    [{ range: 'bytes=2-4', 'if-range': etag }, 206, '234', 'bytes 2-4/10'],
    [{ range: 'bytes=2-4', 'if-range': '"other"' }, 200, '0123456789'],
    [{ range: 'bytes=2-4', 'if-range': `W/${etag}` }, 200, '0123456789'],
    [{ 'if-none-match': etag }, 304, ''],
    [{ 'if-none-match': `"x", W/${etag}` }, 304, ''],
    [{ 'if-none-match': '*' }, 304, ''],
    [{ 'if-none-match': '"x"' }, 200, '0123456789'],
  ];
  for (const [asked, status, text, range] of cases) {
    const answer = await files.get(id, asked);
    const seen = [answer.status, answer.text, answer.headers['content-range']];
    assert.deepEqual(seen, [status, text, range], JSON.stringify(asked));
  }
  const head = await files.get(id, { range: 'bytes=2-4' }, 'HEAD');
  assert.deepEqual([head.status, head.text, head.headers['content-length'], head.headers.etag], [200, '', '10', etag]);
  const empty = await files.get(await files.upload('empty', ''));
  assert.deepEqual([empty.status, empty.text, empty.headers['content-length']], [200, '', '0']);
  assert.deepEqual(files.api.errors(), []);
});

test('Content-Disposition names any file, and smuggles nothing', async () => {
  const files = await filesOf(await shared());
  const names: [Buffer | string, string][] = [
    ['a"b\\c%41;.txt', `filename="a_b_c_41;.txt"; filename*=UTF-8''a%22b_c%2541%3B.txt`],
    ['line\r\nSet-Cookie: x', `filename="line__Set-Cookie: x"; filename*=UTF-8''line__Set-Cookie%3A%20x`],
    ['Grüße 🙂', `filename="Gr__e _"; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%F0%9F%99%82`],
    ["it's (1)*", `filename="it's (1)*"; filename*=UTF-8''it%27s%20%281%29%2A`],
    [Buffer.from([0x61, 0xff]), `filename="a_"; filename*=UTF-8''a%EF%BF%BD`],
    ['gnp\u{202E}exe.', `filename="gnp_exe."; filename*=UTF-8''gnp_exe.`],
  ];
  for (const [name, expected] of names) {
    const answer = await files.get(await files.upload(name, 'x'));
    assert.deepEqual([answer.status, answer.headers['content-disposition']], [200, `attachment; ${expected}`]);
    assert.equal(answer.headers['set-cookie'], undefined);
  }
});

test('404 for the removal of a file whose directory is deleted meanwhile; neither leaves anything behind', async () => {
  using place = scratch();
  let meanwhile = async (): Promise<void> => undefined;
  await using api = await hosted(place, { caughtUp: () => meanwhile() });
  const files = await filesOf(api);
  const id = await files.upload('f', 'data');
  meanwhile = async () => {
    assert.equal((await files.api.send('DELETE', `/directories/${files.id}`)).status, 204);
    rmSync(join(files.root, '..'), { recursive: true });
  };
  const { status, json } = await files.api.send('DELETE', `${files.path}/${id}`);
  assert.deepEqual([status, json], [404, { error: 'Directory not found' }]);
  assert.deepEqual(files.inTransit(), []);
});

test('409 for the removal of a file whose folder becomes a link meanwhile; its row stays, and nothing is done through the link', async () => {
  using place = scratch();
  let meanwhile = (): void => undefined;
  await using api = await hosted(place, { caughtUp: async () => meanwhile() });
  const files = await filesOf(api);
  mkdirSync(join(files.root, 'in'));
  const outside = join(place.dir, 'outside');
  mkdirSync(outside);
  const id = await files.upload('in/f', 'data');
  meanwhile = () => {
    renameSync(join(files.root, 'in'), join(files.root, 'moved'));
    symlinkSync(outside, join(files.root, 'in'));
  };
  const { status, json } = await files.api.send('DELETE', `${files.path}/${id}`);
  assert.deepEqual([status, json], [409, { error: 'The file has changed since this upload' }]);
  assert.deepEqual(readdirSync(outside), []);
  const row = await api.database.reads.selectFrom('files').select('state').where('id', '=', id).executeTakeFirst();
  assert.equal(row?.state, 'uploaded');
});

test('404 when the file has gone; 409 when it is another one, a link, or being written', async () => {
  using place = scratch();
  const held = new Set<number>();
  await using api = await hosted(place, { isHeld: async (_, inode) => held.has(inode) });
  const files = await filesOf(api);
  const error = async (id: string) => {
    const { status, json } = await files.get(id);
    return [status, (json as { error: string }).error];
  };
  const changed = [409, 'The file has changed since this upload'];
  const id = await files.upload('f', 'data');
  const file = join(files.root, 'f');
  const { ino, mtime } = statSync(file);
  held.add(ino);
  assert.deepEqual(await error(id), [409, 'The file is being written']);
  held.clear();
  assert.equal((await files.get(id)).text, 'data');
  appendFileSync(file, 'more');
  assert.deepEqual(await error(id), changed);
  truncateSync(file, 4);
  utimesSync(file, mtime, mtime);
  unlinkSync(file);
  assert.deepEqual(await error(id), [404, 'The file no longer exists']);
  writeFileSync(file, 'data');
  assert.deepEqual(await error(id), changed);
  unlinkSync(file);
  mkdirSync(file);
  assert.deepEqual(await error(id), changed);
  const linked = await files.upload('real', 'data');
  unlinkSync(join(files.root, 'real'));
  symlinkSync('/etc/passwd', join(files.root, 'real'));
  assert.deepEqual(await error(linked), [404, 'The file no longer exists']);
});

test('a file that is overwritten, cut or rewritten under its old time on the way ends the connection before its end', async (t) => {
  const files = await filesOf(await shared());
  const content = randomBytes(LARGE);
  const changes: [string, (file: string) => void][] = [
    ['overwritten', (file) => writeFileSync(file, 'other')],
    ['cut', (file) => truncateSync(file, LARGE - 1)],
    ['appended to', (file) => appendFileSync(file, 'x')],
    [
      'rewritten, with its time set back',
      (file) => {
        const { atime, mtime } = statSync(file);
        writeFileSync(file, randomBytes(LARGE));
        utimesSync(file, atime, mtime);
      },
    ],
  ];
  for (const [name, change] of changes) {
    await t.test(name, async () => {
      const id = await files.upload('large', content);
      const before = await files.get(id, {}, 'HEAD');
      using connection = await rawConnection(files.api);
      await begin(files, connection, id);
      change(join(files.root, 'large'));
      connection.socket.resume();
      await connection.ended;
      const received = connection.received();
      const body = Buffer.from(received.slice(received.indexOf('\r\n\r\n') + 4), 'latin1');
      assert.ok(body.length < LARGE, `${body.length} bytes came`);
      assert.ok(body.equals(content.subarray(0, body.length)), 'and each is as it was');
      assert.notEqual((await files.get(id, { 'if-none-match': String(before.headers.etag) })).status, 304);
    });
    await files.api.database.db.deleteFrom('files').where('directory_id', '=', files.id).execute();
  }
  await until('nothing is left open', () => openBelow(files.root) === 0);
  assert.deepEqual(files.api.errors(), []);
});

test('clients that do not read or go away hold no file open for longer, and no more than a few at once', async () => {
  using place = scratch();
  await using api = await hosted(place, { downloads: 2, stalledMs: 300 });
  const files = await filesOf(api);
  const id = await files.upload('large', Buffer.alloc(LARGE));
  const connections: RawConnection[] = [];
  for (let i = 0; i < 6; i += 1) {
    const connection = await rawConnection(files.api);
    connections.push(connection);
    ask(files, connection, id);
    connection.socket.pause();
  }
  await until('some are open', () => openBelow(files.root) > 0);
  const { text } = await files.get(await files.upload('small', 'read at once'));
  assert.equal(text, 'read at once');
  assert.ok(openBelow(files.root) <= 2, `${openBelow(files.root)} open`);
  for (const { socket } of connections) socket.destroy();
  await until('all are closed', () => openBelow(files.root) === 0);
  assert.deepEqual(files.api.errors(), []);
});

test('a link that is revoked while a download waits for its turn sends nothing; one that has begun goes on', async () => {
  using place = scratch();
  await using api = await hosted(place, { downloads: 1, stalledMs: 60_000 });
  const files = await filesOf(api);
  await files.upload('large', Buffer.alloc(LARGE));
  const links = files.path.replace(/uploads$/, 'links');
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const made = await files.api.send('POST', links, { json: { for: 'download', path: 'large', expires_at } });
  const { pathname } = new URL((made.json as { data: { url: string } }).data.url);
  const request = `GET ${pathname} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  using first = await rawConnection(files.api);
  first.socket.once('data', () => first.socket.pause());
  first.write(request);
  await until('it has begun', () => first.received() !== '');
  using second = await rawConnection(files.api);
  second.write(request);
  await wait(100);
  assert.equal(second.received(), '');
  assert.equal((await files.api.send('DELETE', links)).status, 204);
  first.socket.resume();
  await Promise.all([first.ended, second.ended]);
  assert.ok(first.received().length > LARGE);
  assert.match(second.received(), /^HTTP\/1\.1 403 /);
  assert.deepEqual(files.api.errors(), []);
});

type Files = Awaited<ReturnType<typeof filesOf>>;

function ask({ api, path }: Files, connection: RawConnection, id: string): void {
  connection.write(
    `GET /api/v1${path}/${id}/content HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.tenant.key}\r\n\r\n`,
  );
}

/** Asks for a file and stops reading once its answer has begun. */
async function begin(files: Files, connection: RawConnection, id: string): Promise<void> {
  connection.socket.once('data', () => connection.socket.pause());
  ask(files, connection, id);
  await until('it has begun', () => connection.received() !== '');
}

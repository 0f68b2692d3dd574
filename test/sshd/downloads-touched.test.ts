/** Downloads by HTTPS of a file whose times, mode and name its customer changes meanwhile (docs/webhooks.md): they go on. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { downloadLink, open } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { type SftpSession, sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** More than the sockets of both sides hold. */
const CONTENT = randomBytes(16 * 1024 * 1024);

/** The ways to download a file. The dashboard takes the upload by its id, as the first one. */
const WAYS = {
  "an upload's content": async (_berth: TestBerth, { id }: TestDirectory, upload: string) =>
    `/api/v1/directories/${id}/uploads/${upload}/content`,
  'a path': async (_berth: TestBerth, { id }: TestDirectory) => `/api/v1/directories/${id}/files/report.bin`,
  'a link': (berth: TestBerth, directory: TestDirectory) => downloadLink(berth, directory, 'report.bin'),
} as const;

/** Changes times, mode, name and folder, which take effect one after the other while the answer is read. */
async function change(session: SftpSession): Promise<void> {
  await session.set('report.bin', { atime: 1_700_000_000, mtime: 1_700_000_000 });
  await session.set('report.bin', { mode: 0o600 });
  await session.rename('report.bin', 'done.bin');
  await session.mkdir('done');
  await session.rename('done.bin', 'done/report.bin');
  await session.set('done/report.bin', { atime: 1_700_000_001, mtime: 1_700_000_001 });
  await session.rename('done', 'old');
}

/** Reads some of it, so that the server goes on. */
async function some(incoming: IncomingMessage): Promise<Buffer> {
  while (incoming.readableLength === 0) await once(incoming, 'readable');
  return incoming.read() as Buffer;
}

for (const [way, pathOf] of Object.entries(WAYS))
  test(`${way}: times, mode and name are changed while it is read slowly`, async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    await session.put('report.bin', CONTENT);
    await until('it is an upload', async () => (await berth.uploads(directory)).length === 1);
    const [upload] = await berth.uploads(directory);
    assert.ok(upload);
    const headers = { authorization: `Bearer ${berth.key}` };
    const outgoing = open(berth, await pathOf(berth, directory, upload.id), { headers });
    outgoing.end();
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    assert.equal(incoming.statusCode, 200);
    const parts = [await some(incoming)];
    const changing = change(session);
    parts.push(await some(incoming));
    await changing;
    const body = Buffer.concat([...parts, await buffer(incoming)]);
    assert.ok(body.equals(CONTENT), `${body.length} of ${CONTENT.length} bytes came`);
    assert.deepEqual(
      (await berth.uploads(directory)).map(({ id }) => id),
      [upload.id],
    );
  });

test('what is written meanwhile ends it: no byte of the new content is sent', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('report.bin', CONTENT);
  await until('it is an upload', async () => (await berth.uploads(directory)).length === 1);
  const outgoing = open(berth, await downloadLink(berth, directory, 'report.bin'));
  outgoing.end();
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  await once(incoming, 'readable');
  const handle = await session.open('report.bin', 'r+');
  await session.write(handle, Buffer.alloc(1024, 'x'), CONTENT.length - 1024);
  await session.close(handle);
  await session.set('report.bin', { atime: 1_700_000_000, mtime: 1_700_000_000 });
  const chunks: Buffer[] = [];
  await assert.rejects(async () => {
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
  });
  const body = Buffer.concat(chunks);
  assert.ok(body.length < CONTENT.length && body.equals(CONTENT.subarray(0, body.length)), `${body.length} bytes came`);
});

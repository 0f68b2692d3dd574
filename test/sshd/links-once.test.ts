/** Links for one download: used once all bytes of the file were sent, in however many requests. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { ask, downloadLink, open } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('a download that works once ends with the last of its bytes, in whatever ranges they were sent', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const content = randomBytes(3_000_000);
  const file = join(directory.files, 'a.zip');
  writeFileSync(file, content);
  await berth.receiver.next();
  const made = (): Promise<string> => downloadLink(berth, directory, 'a.zip', { once: true });
  const range = async (link: string, text: string): Promise<number> => {
    const { status } = await ask(berth, link, { headers: { range: `bytes=${text}` } });
    return status;
  };
  /** Like `range`, once the end of the request before has been recorded. */
  const later = async (link: string, text: string): Promise<number> => {
    let status = await range(link, text);
    for (let tries = 0; status === 410 && tries < 20; tries += 1) {
      await wait(50);
      status = await range(link, text);
    }
    return status;
  };

  const viewed = await made();
  for (const part of ['-1', '-65557', '2900000-2950000', '0-29', '0-29']) assert.equal(await range(viewed, part), 206);
  assert.equal(await range(viewed, '30-2999999'), 206);
  assert.equal(await range(viewed, '0-29'), 410);
  assert.equal((await ask(berth, viewed)).status, 410);

  // A download that breaks off is resumed where it was; what its client has already is not sent again.
  const broken = await made();
  const cut = open(berth, broken);
  cut.on('error', () => undefined);
  cut.end();
  const [incoming] = (await once(cut, 'response')) as [IncomingMessage];
  incoming.on('error', () => undefined);
  const [some] = (await once(incoming, 'data')) as [Buffer];
  cut.destroy();
  assert.equal(await later(broken, `${some.length}-`), 206);
  assert.equal(await range(broken, '0-0'), 410);

  // Neither a restart nor a part that comes twice makes more of it; a file that has changed starts again.
  const [kept, renewed] = [await made(), await made()];
  for (const link of [kept, renewed]) assert.equal(await range(link, '1000-'), 206);
  await berth.stop();
  await berth.start();
  assert.equal(await range(kept, '0-999'), 206);
  assert.equal(await range(kept, '0-999'), 410);
  writeFileSync(file, 'another');
  await berth.receiver.next();
  for (const part of ['0-2', '3-6']) assert.equal(await range(renewed, part), 206);
  assert.equal(await range(renewed, '0-2'), 410);
});

test('two clients cannot both put together the file of a link that works once', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const size = 64_000_000;
  writeFileSync(join(directory.files, 'large'), Buffer.alloc(size));
  await berth.receiver.next();
  const [link, changing] = [
    await downloadLink(berth, directory, 'large', { once: true }),
    await downloadLink(berth, directory, 'large', { once: true }),
  ];
  const half = async (range: string, from = link): Promise<IncomingMessage> => {
    const request = open(berth, from, { headers: { range } });
    request.on('error', () => undefined);
    request.end();
    const [incoming] = (await once(request, 'response')) as [IncomingMessage];
    incoming.on('error', () => undefined);
    return incoming;
  };
  const halves = [`bytes=0-${size / 2 - 1}`, `bytes=${size / 2}-`] as const;
  const first = [await half(halves[0]), await half(halves[0])];
  const last = [await half(halves[1]), await half(halves[1])];
  assert.deepEqual(
    [...first, ...last].map(({ statusCode }) => statusCode),
    [206, 206, 206, 410],
  );
  // The one that has it breaks off, and another may take its place.
  for (const incoming of [...first, ...last]) incoming.destroy();
  /** Asks until the end of the download before has been recorded. */
  const wholeOf = async (from: string): Promise<Awaited<ReturnType<typeof ask>>> => {
    for (let tries = 0; ; tries += 1) {
      const answer = await ask(berth, from, { headers: { range: 'bytes=0-' } });
      if (answer.status !== 410 || tries === 50) return answer;
      await wait(50);
    }
  };
  const whole = await wholeOf(link);
  assert.deepEqual([whole.status, whole.bytes.length], [206, size]);
  assert.equal((await ask(berth, link)).status, 410);

  // A file that changes meanwhile ends the connection, and the link then sends the new file.
  const cut = await half('bytes=0-', changing);
  const closed = new Promise((resolve) => cut.once('close', resolve));
  writeFileSync(join(directory.files, 'large'), 'another');
  await berth.receiver.next();
  cut.resume();
  await closed;
  assert.equal(cut.complete, false);
  const { status, text } = await wholeOf(changing);
  assert.deepEqual([status, text], [206, 'another']);
  assert.equal((await ask(berth, changing)).status, 410);
  const { db, close } = await openDatabase(berth.config.database);
  const downloads = db
    .selectFrom('transfers')
    .select('bytes')
    .where('event', '=', 'downloaded')
    .where('directory_id', '=', directory.id)
    .orderBy('at');
  const recorded = async () => (await downloads.execute()).map(({ bytes }) => bytes);
  await until('both are recorded', async () => (await recorded()).length >= 2);
  assert.deepEqual(await recorded(), [size, 'another'.length], 'without the one that was cut off');
  await close();
});

test('each part that is read by a link is in the history, and is not announced as a download', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const { status } = await berth.send('PUT', `/directories/${directory.id}/files/ten`, { body: '0123456789' });
  assert.equal(status, 201);
  const single = await downloadLink(berth, directory, 'ten', { once: true });
  const often = await downloadLink(berth, directory, 'ten');
  for (const link of [single, single, often]) {
    const part = await ask(berth, link, { headers: { range: 'bytes=0-8' } });
    assert.deepEqual([part.status, part.text], [206, '012345678']);
  }
  assert.equal((await ask(berth, single)).text, '0123456789');
  assert.equal((await ask(berth, single)).status, 410);
  const database = await openDatabase(berth.config.database);
  const rows = database.db
    .selectFrom('transfers')
    .select(['event', 'bytes', 'reason', 'via'])
    .where('directory_id', '=', directory.id)
    .orderBy('id');
  await until('all are recorded', async () => (await rows.execute()).length >= 4);
  const part = { event: 'download-dropped', bytes: 9, reason: 'bytes 0 to 8 of 10', via: 'link' };
  assert.deepEqual(await rows.execute(), [
    part,
    part,
    part,
    { event: 'downloaded', bytes: 10, reason: null, via: 'link' },
  ]);
  await database.close();
});

test('a browser first gets a page about the file to download, which uses nothing up; other clients get the file', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const placed = await berth.send('PUT', `/directories/${directory.id}/files/out/%C3%A4%3Cb%3E.txt`, { body: 'hello' });
  assert.equal(placed.status, 201, placed.text);
  const link = await downloadLink(berth, directory, 'out/ä<b>.txt', { once: true });
  const html = { headers: { accept: 'text/html,*/*' } };
  for (let visit = 0; visit < 2; visit += 1) {
    const page = await ask(berth, link, html);
    assert.equal(page.status, 200);
    assert.match(
      page.text,
      /Test<\/bdi> shares a file with you.*You can download it once\..*ä&lt;b&gt;\.txt.*5 bytes/s,
    );
    assert.doesNotMatch(page.text, /out\/|<b>/, 'no folder is named');
    assert.match(page.text, /href="\?download"/);
    assert.match(String(page.headers['content-security-policy']), /^default-src 'none'; script-src 'sha256-/);
  }
  const file = await ask(berth, `${link}?download`, html);
  assert.deepEqual([file.status, file.text], [200, 'hello']);
  assert.match(String(file.headers['content-disposition']), /^attachment/);
  await until('it is used up', async () => (await ask(berth, link, html)).status === 410);
  const other = await downloadLink(berth, directory, 'out/ä<b>.txt', {});
  assert.equal((await ask(berth, other)).text, 'hello');
  assert.equal((await ask(berth, other, { headers: { ...html.headers, range: 'bytes=0-1' } })).text, 'he');
});

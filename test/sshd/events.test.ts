/**
 * The feed of events over real sessions, and the events besides uploads that a directory or its account subscribes to: each once,
 * and no others.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { verifyWebhook } from '../../clients/typescript/src/webhooks.ts';
import { EVENT_KINDS } from '../../src/foundation/db/schema.ts';
import { checkedScratch, checkPlace, fakeClamd } from '../checks/check-place.ts';
import { historyOf, startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { problems } from '../support/openapi.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

type Said = Readonly<Record<string, unknown>> & { readonly event: string };

const OPERATIONS: Readonly<Record<string, string>> = {
  'file.uploaded': 'fileUploaded',
  'file.deleted': 'fileDeleted',
  'file.renamed': 'fileRenamed',
  'file.downloaded': 'fileDownloaded',
  'file.rejected': 'fileRejected',
  'upload.failed': 'uploadFailed',
};

const ask = (berth: TestBerth, path: string, events: readonly string[] | null) =>
  berth.send('PUT', path, { json: { events } });

/** Uploads, downloads, renames, removes, and is cut off in an upload. */
async function busy(dir: string, berth: TestBerth, directory: TestDirectory): Promise<void> {
  writeFileSync(join(dir, 'f'), 'content');
  const commands = ['put f a.csv', 'put f b.csv', 'put f c.csv', 'get a.csv got', 'rename a.csv z.csv', 'rm z.csv'];
  const { code, output } = await sftp(dir, directory.login, [
    'mkdir in',
    'put f in/d.csv',
    'rename in out',
    ...commands,
  ]);
  assert.equal(code, 0, output);
  const connection = await berth.connect(directory);
  const channel = await connection.sftp();
  const { promise: opened, resolve } = Promise.withResolvers<Buffer>();
  channel.open('cut.csv', 'w', (_, file) => resolve(file));
  const handle = await opened;
  await new Promise<unknown>((done) => channel.write(handle, Buffer.from('half'), 0, 4, 0, done));
  connection.drop();
  await until('the cut upload is in the history', async () =>
    (await historyOf(berth, directory)).includes('upload-dropped'),
  );
  const [c] = dataOf<{ id: string }[]>(await berth.send('GET', `/directories/${directory.id}/uploads?filename=c.csv`));
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}/uploads/${c?.id}`)).status, 204);
}

const feedOf = async (berth: TestBerth): Promise<Said[]> =>
  dataOf<{ data: Said }[]>(await berth.send('GET', '/events?limit=1000')).map(({ data }) => data);

/** Names and what happened to them. */
const summary = (events: readonly Said[]): string[] =>
  events
    .map(({ event, filename, previous_filename: before, size_bytes, sent_bytes }) =>
      [event, before, filename, size_bytes ?? sent_bytes]
        .flatMap((each) => (typeof each === 'string' || typeof each === 'number' ? each : []))
        .join(' '),
    )
    .toSorted();

const UPLOADS = ['a', 'b', 'c', 'in/d'].map((name) => `file.uploaded ${name}.csv 7`);

test('a reader that follows the feed sees every upload of eight sessions, once and in its order', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directories = await Promise.all(Array.from({ length: 4 }, () => berth.directory()));
  writeFileSync(join(place.dir, 'f'), 'content');
  const each = 40;
  const uploads = Array.from({ length: 8 }, (_, writer) => {
    const directory = directories[writer % 4] ?? assert.fail();
    const commands = Array.from({ length: each }, (_unused, i) => `put f ${writer}-${i}`);
    return sftp(place.dir, directory.login, commands);
  });
  const seen: { sequence: number; upload_id: string; data: { filename: string } }[] = [];
  await until('all have come', async () => {
    seen.push(...dataOf<typeof seen>(await berth.send('GET', `/events?after=${seen.at(-1)?.sequence ?? 0}`)));
    return seen.length >= 8 * each;
  });
  for (const { code, output } of await Promise.all(uploads)) assert.equal(code, 0, output);
  assert.deepEqual(
    seen.map(({ sequence }) => sequence),
    Array.from({ length: 8 * each }, (_, i) => i + 1),
  );
  const listed = await Promise.all(directories.map((directory) => berth.uploads(directory)));
  assert.deepEqual(
    seen.map(({ upload_id, data }) => `${upload_id} ${data.filename}`).toSorted(),
    listed
      .flat()
      .map(({ id, filename }) => `${id} ${filename}`)
      .toSorted(),
  );
});

test('without a subscription, only uploads are announced', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const path = `/directories/${directory.id}/webhook/events`;
  assert.deepEqual(dataOf(await berth.send('GET', path)), { events: ['file.uploaded'], inherited: true });
  await busy(place.dir, berth, directory);
  assert.deepEqual(summary(await feedOf(berth)), UPLOADS);
  const deliveries = dataOf<Said[]>(await berth.send('GET', `/directories/${directory.id}/deliveries`));
  assert.deepEqual(new Set(deliveries.map(({ event }) => event)), new Set(['file.uploaded']));
});

test('a subscriber gets each event once: signed, in the feed and in the deliveries; a replay repeats its bytes', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const path = `/directories/${directory.id}/webhook/events`;
  const asked = await ask(berth, path, EVENT_KINDS);
  assert.deepEqual(dataOf(asked), { events: EVENT_KINDS, inherited: false });
  await busy(place.dir, berth, directory);
  const expected = [
    ...UPLOADS,
    'file.deleted c.csv 7',
    'file.deleted z.csv 7',
    'file.downloaded a.csv 7',
    'file.renamed a.csv z.csv',
    'file.renamed in out',
    'upload.failed cut.csv 4',
  ].toSorted();
  await until('all are in the feed', async () => (await feedOf(berth)).length >= expected.length);
  assert.deepEqual(summary(await feedOf(berth)), expected);
  const received = () => berth.receiver.requests.map(({ body }) => JSON.parse(body.toString()) as Said);
  await until('all are delivered', () => received().length >= expected.length);
  assert.deepEqual(summary(received()), expected);
  for (const { body, headers } of berth.receiver.requests) {
    const event = verifyWebhook(body, headers, directory.secret);
    const pointer = `components/pathItems/${OPERATIONS[event.event]}/post/requestBody/content/application~1json/schema`;
    assert.deepEqual(problems(pointer, event), []);
    assert.equal(headers['webhook-upload-id'] === undefined, event.event !== 'file.uploaded');
  }
  const deliveries = dataOf<Said[]>(await berth.send('GET', `/directories/${directory.id}/deliveries`));
  assert.deepEqual(
    deliveries.map(({ event }) => event).toSorted(),
    expected.map((each) => each.split(' ')[0]),
  );
  const renamed = deliveries.find(({ event }) => event === 'file.renamed');
  const replay = await berth.send('POST', `/directories/${directory.id}/deliveries/${String(renamed?.['id'])}/replay`);
  assert.equal(dataOf<Said>(replay).event, 'file.renamed');
  await until('it has come again', () => received().length > expected.length);
  assert.equal(received().at(-1)?.event, 'file.renamed');
});

test('a directory without a list gets its account’s events; a list of its own replaces that', async () => {
  await using berth = await shared();
  const { place } = berth;
  const [follows, own] = [await berth.directory({ name: 'Follows' }), await berth.directory({ name: 'Own' })];
  assert.equal((await ask(berth, '/webhook/events', ['file.deleted', 'file.uploaded'])).status, 200);
  assert.equal((await ask(berth, `/directories/${own.id}/webhook/events`, [])).status, 200);
  const show = async ({ id }: TestDirectory) => dataOf(await berth.send('GET', `/directories/${id}/webhook/events`));
  assert.deepEqual(await show(follows), { events: ['file.uploaded', 'file.deleted'], inherited: true });
  assert.deepEqual(await show(own), { events: ['file.uploaded'], inherited: false });
  for (const directory of [follows, own]) {
    mkdirSync(join(place.dir, directory.username));
    writeFileSync(join(place.dir, directory.username, 'f'), 'content');
    await sftp(join(place.dir, directory.username), directory.login, ['put f', 'rename f g', 'rm g']);
  }
  for (const directory of [follows, own])
    await until('it has removed', async () => (await historyOf(berth, directory)).includes('removed'));
  const deleted = (await feedOf(berth)).filter(({ event }) => event !== 'file.uploaded');
  assert.deepEqual(
    deleted.map(({ event, directory_id }) => [event, directory_id]),
    [['file.deleted', follows.id]],
  );
  assert.equal((await ask(berth, '/webhook/events', null)).status, 200);
  assert.deepEqual(await show(follows), { events: ['file.uploaded'], inherited: true });
});

test('each is announced once across a crash of berth', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  await ask(berth, '/webhook/events', EVENT_KINDS);
  await busy(place.dir, berth, directory);
  const before = summary(await feedOf(berth));
  await berth.stop();
  await berth.start();
  writeFileSync(join(place.dir, 'f'), 'content');
  await sftp(place.dir, directory.login, ['put f last.csv', 'rm last.csv']);
  await until('the last is announced', async () => (await feedOf(berth)).length >= before.length + 2);
  const after = [...before, 'file.uploaded last.csv 7', 'file.deleted last.csv 7'].toSorted();
  assert.deepEqual(summary(await feedOf(berth)), after);
});

test('a rejected file is announced as rejected, with the reason, and never as uploaded', async () => {
  const { place, socket } = checkedScratch();
  using _ = place;
  await using _clamd = await fakeClamd(socket);
  await using at = await checkPlace(place);
  const { berth, directory } = at;
  await ask(berth, `/directories/${directory.id}/webhook/events`, ['file.rejected']);
  await at.put('evil', 'bad bytes');
  const { body, headers } = await berth.receiver.next();
  const event = verifyWebhook(body, headers, directory.secret);
  const pointer = 'components/pathItems/fileRejected/post/requestBody/content/application~1json/schema';
  assert.deepEqual(problems(pointer, event), []);
  assert.ok(event.event === 'file.rejected');
  assert.deepEqual([event.filename, event.size_bytes, event.reason], ['evil', 9, 'Bad-Signature']);
  assert.deepEqual(
    (await feedOf(berth)).map((each) => each.event),
    ['file.rejected'],
  );
});

test('refused logins are announced without the dashboard', async () => {
  using place = scratch({ BERTH_DASHBOARD: 'off' });
  const folder = join(place.config.stateDir, 'sshd-log');
  mkdirSync(folder, { recursive: true });
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await ask(berth, `/directories/${directory.id}/webhook/events`, ['login.refused']);
  const time = new Date(Date.now() - 120_000).toISOString().replace('Z', '000Z');
  writeFileSync(
    join(folder, 'current'),
    `${time} sshd[7]: Failed password for ${directory.username} from 192.0.2.1 port 1 ssh2\n`,
  );
  await until('it is in the feed', async () => (await feedOf(berth)).length > 0);
  const [event] = await feedOf(berth);
  assert.partialDeepStrictEqual(event, { event: 'login.refused', address: '192.0.2.1', reason: 'wrong password' });
});

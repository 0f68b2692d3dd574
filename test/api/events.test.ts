/**
 * GET /api/v1/events: a reader that continues from the highest number it has seen misses nothing while others write.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { DAY } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { skipNumbers } from '../../src/rules/history/events.ts';
import { pruneHistory } from '../../src/rules/history/removal.ts';
import { enqueue, type UploadEvent } from '../../src/deliveries/webhooks/outbox.ts';
import { dataOf } from '../support/field-sets.ts';
import { type Api, hosted, sharedHosted } from '../support/hosted.ts';
import { onPostgres } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { SEED } from '../support/seed.ts';
import { randomOf } from '../support/random-of.ts';

const shared = sharedHosted();

interface ShownEvent {
  readonly sequence: number;
  readonly event: string;
  readonly at: string;
  readonly directory_id: string;
  readonly upload_id: string | null;
  readonly data: { readonly filename: string };
}

async function directoryOf(api: Api, fields = {}, send = api.send): Promise<UploadEvent['directory']> {
  const { id } = await api.directory(fields, send);
  return api.database.db.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

const uploadOf = (directory: UploadEvent['directory'], filename: string, uploadedAt = 0): UploadEvent => ({
  directory,
  uploadId: randomUUID(),
  filename,
  sizeBytes: 1,
  uploadedAt,
});

function put(api: Api, ...uploads: UploadEvent[]): Promise<unknown> {
  return api.database.db.transaction().execute((tx) => enqueue(tx, ...uploads));
}

async function eventsOf(api: Api, query = '', send = api.send): Promise<ShownEvent[]> {
  const answer = await send('GET', `/events${query}`);
  assert.equal(answer.status, 200, answer.text);
  return dataOf<ShownEvent[]>(answer);
}

test('the events of all directories of the account, oldest first, with what a webhook says', async () => {
  const api = await shared();
  assert.deepEqual(await eventsOf(api), []);
  const [one, two] = [await directoryOf(api), await directoryOf(api, { name: 'Beta', external_id: 'b' })];
  const at = Date.parse('2026-01-02T03:04:05Z') * 1000;
  const [first, second] = [uploadOf(one, 'a "1".csv', at), { ...uploadOf(two, 'in/b.csv', at - 5), uploadId: null }];
  await put(api, first, second);
  const stranger = await api.account('pro');
  await put(api, uploadOf(await directoryOf(api, {}, stranger.send), 'theirs'));
  assert.deepEqual(await eventsOf(api), [
    {
      sequence: 1,
      event: 'file.uploaded',
      at: '2026-01-02T03:04:05.000000Z',
      directory_id: one.id,
      upload_id: first.uploadId,
      data: {
        event: 'file.uploaded',
        directory_id: one.id,
        external_id: null,
        filename: 'a "1".csv',
        size_bytes: 1,
        uploaded_at: '2026-01-02T03:04:05.000000Z',
        directory: 'acme-corp',
      },
    },
    {
      sequence: 2,
      event: 'file.uploaded',
      at: '2026-01-02T03:04:04.999995Z',
      directory_id: two.id,
      upload_id: null,
      data: {
        event: 'file.uploaded',
        directory_id: two.id,
        external_id: 'b',
        filename: 'in/b.csv',
        size_bytes: 1,
        uploaded_at: '2026-01-02T03:04:04.999995Z',
        directory: 'beta',
      },
    },
  ]);
  const theirs = await eventsOf(api, '', stranger.send);
  assert.deepEqual(
    theirs.map(({ sequence, data }) => [sequence, data.filename]),
    [[1, 'theirs']],
    "another account's numbers are its own",
  );
  assert.deepEqual(await eventsOf(api, '?after=2'), []);
});

test('pages lead on by the Link header and by the number; a number that was not given out is refused', async () => {
  const api = await shared();
  const directory = await directoryOf(api);
  await put(api, ...Array.from({ length: 2500 }, (_, i) => uploadOf(directory, `f${i}`)));
  const seen: ShownEvent[] = [];
  for (let path: string | undefined = '/events?limit=1000'; path !== undefined;) {
    const answer = await api.send('GET', path);
    seen.push(...dataOf<ShownEvent[]>(answer));
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(
    seen.map(({ sequence, data }) => [sequence, data.filename]),
    Array.from({ length: 2500 }, (_, i) => [i + 1, `f${i}`]),
  );
  assert.equal((await eventsOf(api)).length, 100);
  assert.deepEqual(await eventsOf(api, '?after=2400&limit=2'), seen.slice(2400, 2402));
  assert.deepEqual((await api.send('GET', '/events?after=2501')).json, {
    errors: { after: ['is the number of no event yet'] },
  });
});

test('8 writers whose transactions overlap, and readers who follow: every event once, in the order of its number', async () => {
  const api = await shared();
  const { place } = api;
  const directories = [await directoryOf(api), await directoryOf(api)];
  await using parts = new AsyncDisposableStack();
  const each = 120;
  const random = randomOf(SEED);
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    // On SQLite there is one connection that writes.
    const { db } = onPostgres
      ? parts.adopt(await openDatabase(place.config.database), (own) => own.close())
      : api.database;
    for (let i = 0; i < each; i += 1) {
      const upload = uploadOf(directories[i % 2] ?? assert.fail(), `${writer}-${i}`, api.rules.clock.now());
      await db.transaction().execute(async (tx) => {
        await enqueue(tx, upload);
        if (onPostgres) await sleep(random() * 8);
      });
      await sleep(0);
    }
  });
  let areDone = false;
  const done = Promise.all(writers).finally(() => (areDone = true));
  // The first failure is the one that is reported.
  done.catch(() => undefined);
  const readers = Array.from({ length: 3 }, async (_, reader) => {
    const seen: ShownEvent[] = [];
    for (let isLast = false; !isLast;) {
      isLast = areDone;
      for (let more = true; more;) {
        const events = await eventsOf(api, `?after=${seen.at(-1)?.sequence ?? 0}&limit=${[7, 100, 1000][reader]}`);
        seen.push(...events);
        more = events.length > 0;
      }
    }
    return seen;
  });
  const all = await Promise.all(readers);
  await done;
  const names = Array.from({ length: 8 * each }, (_, i) => `${i % 8}-${Math.floor(i / 8)}`);
  for (const seen of all) {
    assert.deepEqual(
      seen.map(({ sequence }) => sequence),
      names.map((_, i) => i + 1),
    );
    assert.deepEqual(seen.map(({ data }) => data.filename).toSorted(), names.toSorted());
  }
  assert.deepEqual(all[1], all[0]);
});

test('an event that is committed late gets a number after those that were read', async () => {
  const api = await shared();
  const { place } = api;
  const directory = await directoryOf(api);
  await using own = await openDatabase(place.config.database).then((database) => ({
    ...database,
    [Symbol.asyncDispose]: () => database.close(),
  }));
  const { promise: committed, resolve: commit } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  // On SQLite nobody else could write meanwhile.
  const late = onPostgres
    ? own.db.transaction().execute(async (tx) => {
        await enqueue(tx, uploadOf(directory, 'late'));
        begin();
        await committed;
      })
    : begin();
  await begun;
  await put(api, uploadOf(directory, 'early'));
  const names = async (query = '') => (await eventsOf(api, query)).map(({ data }) => data.filename);
  assert.deepEqual(await names(), ['early']);
  commit();
  await late;
  if (onPostgres) assert.deepEqual(await names('?after=1'), ['late']);
});

test('410 when events after the number have gone, by age or with a restored backup; the answer says where to continue', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const directory = await directoryOf(api);
  const now = api.rules.clock.now();
  const old = now - 40 * DAY;
  await put(api, uploadOf(directory, 'a', old), uploadOf(directory, 'b', old));
  assert.equal((await eventsOf(api, '?limit=1')).length, 1);
  await put(api, uploadOf(directory, 'never read', old));
  const prune = () =>
    pruneHistory({ ...api.rules, config: { ...api.rules.config, historyDays: 30 } }, new AbortController().signal);
  await prune();
  const gone = await api.send('GET', '/events?after=1');
  assert.equal(gone.status, 410);
  assert.match(gone.text, /Events up to number 3 are no longer kept: .* continue with \?after=3"/);
  assert.deepEqual(await eventsOf(api, '?after=3'), []);
  await put(api, uploadOf(directory, 'new', now));
  assert.equal((await api.send('GET', '/events?after=2')).status, 410);
  assert.deepEqual(
    (await eventsOf(api, '?after=3')).map(({ sequence }) => sequence),
    [4],
  );
  assert.equal((await eventsOf(api)).length, 1, 'without a number it begins with the oldest');

  await api.database.db.transaction().execute(skipNumbers);
  await put(api, uploadOf(directory, 'after the restore', now));
  assert.equal((await api.send('GET', '/events?after=4')).status, 410);
  assert.equal(
    (await api.send('GET', '/events?after=70')).status,
    410,
    'a number that was given out before the restore',
  );
  const [restored] = (await eventsOf(api)).slice(1);
  assert.equal(restored?.data.filename, 'after the restore');
});

/** A key that may only read those directories. */
async function limitedTo(api: Api, ...directories: UploadEvent['directory'][]): Promise<Api['send']> {
  const json = { name: 'few', role: 'member', read_only: true, directories: directories.map(({ id }) => id) };
  const { key } = dataOf<{ key: string }>(await api.send('POST', '/api_keys', { json }));
  return api.client.as(key);
}

test('a key of one directory is given its event behind many of others, though nobody has read those', async () => {
  const api = await shared();
  const [own, other] = [await directoryOf(api), await directoryOf(api)];
  const send = await limitedTo(api, own);
  await put(api, ...Array.from({ length: 1500 }, (_, i) => uploadOf(other, `f${i}`)), uploadOf(own, 'mine'));
  const names = async (query = '') => (await eventsOf(api, query, send)).map(({ data }) => data.filename);
  assert.deepEqual(await names('?limit=2'), ['mine']);
  await put(api, ...Array.from({ length: 1500 }, (_, i) => uploadOf(other, `g${i}`)), uploadOf(own, 'later'));
  assert.deepEqual(await names('?after=1501&limit=2'), ['later']);
  assert.deepEqual(await names('?limit=1'), ['mine']);
});

test('while a limited key is the first reader of very many events, other requests go on', async () => {
  const api = await shared();
  const [own, other] = [await directoryOf(api), await directoryOf(api)];
  const send = await limitedTo(api, own);
  const batches = 20;
  await put(api, ...Array.from({ length: batches * 1000 }, (_, i) => uploadOf(other, `f${i}`)), uploadOf(own, 'mine'));
  let turns = 0;
  const answered = new AbortController();
  const asked = eventsOf(api, '', send).finally(() => answered.abort());
  // Each turn of the loop is a chance for another request. Sending one and its response takes some turns, too.
  for (; !answered.signal.aborted; turns += 1) await setImmediate();
  assert.equal((await asked).length, 1);
  assert.ok(turns > batches, `${turns} turns`);
});

test('the pages of a limited key have all events of its directories and no other, however they lie among others', async () => {
  const api = await shared();
  const few = await Promise.all(Array.from({ length: 5 }, () => directoryOf(api)));
  const [own, others] = [few.slice(0, 3), few.slice(3)];
  const send = await limitedTo(api, ...own);
  const from = (among: typeof few, count: number): UploadEvent[] =>
    Array.from({ length: count }, (_, i) => uploadOf(among[i % among.length] ?? assert.fail(), `f${i}`));
  // Few of them among many, then all at once, then every second one.
  for (const next of [from(own, 2), from(others, 3000), from(own, 1), from(own, 900), from(few, 400)]) {
    await put(api, ...next);
  }
  const all = (
    await api.database.db
      .selectFrom('events')
      .select('directory_id')
      .where('account_id', '=', api.tenant.accountId)
      .orderBy('id')
      .execute()
  ).flatMap(({ directory_id }, index) => (own.some(({ id }) => id === directory_id) ? [index + 1] : []));
  for (const limit of [7, 100, 1000]) {
    const seen: number[] = [];
    for (let path: string | undefined = `/events?limit=${limit}`; path !== undefined;) {
      const answer = await send('GET', path);
      const page = dataOf<ShownEvent[]>(answer);
      path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
      assert.ok(page.length === limit || path === undefined);
      seen.push(...page.map(({ sequence }) => sequence));
    }
    assert.deepEqual(seen, all);
  }
});

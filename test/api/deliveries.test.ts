/** The deliveries of a directory: the list, replays of one and of many, and announcing a file. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../src/foundation/base/problems.ts';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { dataOf, TIMESTAMP } from '../support/field-sets.ts';
import { until } from '../support/poll.ts';
import { sharedHosted } from '../support/hosted.ts';
import { receiver } from '../support/receiver.ts';
import { type ShownDelivery, webhookPlace } from './webhook-place.ts';

const NO_TIME = messageOf(['not_a_time']);

const shared = sharedHosted({ dispatches: true });
/** Its deliveries stay pending. */
const quiet = sharedHosted();

const UNKNOWN = '7f0c2f3e-9a1b-4c5d-8e6f-001122334455';
const FIELDS = ['id', 'event', 'upload_id', 'state', 'attempts', 'next_attempt_at', 'url', 'inserted_at'];

test('the list has every attempt with its answer, and says when the next one is', async () => {
  await using place = await webhookPlace(await shared(), {
    respond: (response, _request, index) => {
      // A connection that was kept and ends unanswered would not count.
      if (index === 0) response.writeHead(500, { connection: 'close' }).end();
      else if (index === 1) response.socket?.destroy();
      else response.writeHead(204).end();
    },
  });
  const upload = await place.addFile('in/report.csv');
  const { id } = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  const { attempts, ...rest } = await place.until(id, 'delivered');
  assert.deepEqual(Object.keys({ ...rest, attempts }).toSorted(), FIELDS.toSorted());
  const { inserted_at, ...known } = rest;
  const expected = { id, event: 'file.uploaded', upload_id: upload, state: 'delivered', url: place.target.url };
  assert.deepEqual(known, { ...expected, next_attempt_at: null });
  assert.match(inserted_at, TIMESTAMP);
  assert.deepEqual(
    attempts.map(({ status }) => status),
    [500, null, 204],
  );
  assert.deepEqual([attempts[0]?.error, attempts[2]?.error], [null, null]);
  assert.match(attempts[1]?.error ?? '', /^the receiver closed the connection before it had answered/);
  for (const { at, duration_ms } of attempts) {
    assert.match(at, TIMESTAMP);
    assert.ok(typeof duration_ms === 'number' && duration_ms > 0);
  }
});

test('a webhook leads to its upload: by a header, and by its signed id; what is of no file has no such header', async () => {
  await using place = await webhookPlace(await shared());
  const upload = await place.addFile('in/report.csv');
  const { id } = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  const { headers } = await place.target.next();
  assert.deepEqual([headers['webhook-id'], headers['webhook-upload-id']], [id, upload]);
  const delivery = await place.until(id, 'delivered');
  assert.deepEqual(dataOf(await place.ask('GET', `/deliveries/${id}`)), delivery);
  assert.equal(delivery.upload_id, upload);

  assert.equal((await place.ask('GET', `/deliveries/${UNKNOWN}`)).status, 404);
  const { id: other } = await place.api.directory({ name: 'Other' });
  assert.equal((await place.api.send('GET', `/directories/${other}/deliveries/${id}`)).status, 404);
  const stranger = await place.api.account('pro');
  assert.equal((await stranger.send('GET', `/directories/${place.id}/deliveries/${id}`)).status, 404);

  await place.ask('POST', '/webhook/test');
  assert.equal((await place.target.next()).headers['webhook-upload-id'], undefined);
});

test('it is narrowed by state, and walked through by the Link header, newest first', async () => {
  await using place = await webhookPlace(await quiet());
  const failed = await place.addFinished(5);
  const delivered = await place.addFinished(2, 'delivered');
  const upload = await place.addFile('a');
  const pending = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  assert.deepEqual([pending.state, pending.attempts], ['pending', []]);
  assert.match(pending.next_attempt_at ?? '', TIMESTAMP);
  const ids = async (query: string): Promise<string[]> => (await place.deliveries(query)).map(({ id }) => id);
  assert.deepEqual(await ids('?state=failed'), failed.toReversed());
  assert.deepEqual(await ids('?state=delivered'), delivered.toReversed());
  assert.deepEqual(await ids('?state=pending'), [pending.id]);
  assert.deepEqual(await ids(''), [pending.id, ...delivered.toReversed(), ...failed.toReversed()]);

  const seen: string[] = [];
  for (let path = '/deliveries?state=failed&limit=2'; ;) {
    const answer = await place.ask('GET', path);
    seen.push(...dataOf<ShownDelivery[]>(answer).map(({ id }) => id));
    const next = /^<\/api\/v1\/directories\/[^/]+(.+)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
    if (next === undefined) break;
    path = next;
  }
  assert.deepEqual(seen, failed.toReversed());
  for (const [query, field] of [
    ['?state=queued', 'state'],
    ['?state=', 'state'],
    ['?limit=0', 'limit'],
    [`?after=${UNKNOWN}`, 'after'],
  ] as const) {
    const { status, json } = await place.ask('GET', `/deliveries${query}`);
    assert.equal(status, 422, query);
    assert.deepEqual(Object.keys((json as { errors: object }).errors), [field]);
  }
});

test('the Link header leads on when a page of finished deliveries has gone with the history', async () => {
  await using place = await webhookPlace(await quiet());
  const ids = await place.addFinished(4);
  const answer = await place.ask('GET', '/deliveries?limit=2');
  const { db } = place.api.database;
  for (const { id } of dataOf<ShownDelivery[]>(answer)) {
    await db.deleteFrom('attempts').where('delivery_id', '=', id).execute();
    await db.deleteFrom('deliveries').where('id', '=', id).execute();
  }
  const [, query = ''] = /deliveries(\?.*)>; rel="next"$/.exec(String(answer.headers.link)) ?? [];
  assert.deepEqual(
    (await place.deliveries(query)).map(({ id }) => id),
    ids.slice(0, 2).toReversed(),
  );
});

test('without a limit there are 100, and a link to more', async () => {
  await using place = await webhookPlace(await quiet());
  await place.addFinished(101);
  const answer = await place.ask('GET', '/deliveries');
  assert.equal(dataOf<unknown[]>(answer).length, 100);
  assert.match(String(answer.headers.link), /rel="next"$/);
});

test('a replay has the same bytes and a new id, goes to the URL of today and is signed with its secret of today', async () => {
  await using place = await webhookPlace(await shared(), { respond: (response) => response.writeHead(500).end() });
  await using today = await receiver();
  const upload = await place.addFile('in/report.csv');
  const { id } = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  await place.until(id, 'failed');
  await place.setUrl(today.url);
  const secret = 'a secret that is my own'.replaceAll(' ', '-');
  await place.ask('POST', '/webhook_secret', { activate: true, secret });
  const answer = await place.ask('POST', `/deliveries/${id}/replay`);
  assert.equal(answer.status, 202);
  const again = dataOf<ShownDelivery>(answer);
  assert.deepEqual(Object.keys(again), FIELDS);
  assert.deepEqual([again.state, again.attempts, again.upload_id], ['pending', [], upload]);
  assert.notEqual(again.id, id);
  const request = await today.next();
  assert.deepEqual(request.body, place.target.requests[0]?.body);
  assert.equal(request.headers['webhook-id'], again.id);
  assert.ok(verify(request.body, secret, String(request.headers['x-service-signature'])));
  await place.until(again.id, 'delivered');
  const [, old] = await place.deliveries();
  assert.deepEqual([old?.id, old?.state, old?.attempts.length], [id, 'failed', 4]);
});

test('a delivery that is pending, unknown or of another directory is not replayed, nor is any without a URL', async () => {
  await using place = await webhookPlace(await quiet());
  const [failed] = await place.addFinished(1);
  const upload = await place.addFile('a');
  const pending = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  const refused = await place.ask('POST', `/deliveries/${pending.id}/replay`);
  assert.deepEqual([refused.status, refused.json], [422, { errors: { delivery_id: ['is still pending'] } }]);
  const other = await place.api.directory();
  for (const path of [
    `/directories/${place.id}/deliveries/${UNKNOWN}`,
    `/directories/${other.id}/deliveries/${failed}`,
  ]) {
    const { status, json } = await place.api.send('POST', `${path}/replay`);
    assert.deepEqual([status, json], [404, { error: 'Delivery not found' }]);
  }
  await place.setUrl(null);
  const since = '2020-01-01T00:00:00Z';
  for (const [path, json] of [
    [`/deliveries/${failed}/replay`, undefined],
    ['/deliveries/replay', { since }],
    [`/uploads/${upload}/announce`, undefined],
    ['/webhook/test', undefined],
  ] as const) {
    const answer = await place.ask('POST', path, json);
    assert.deepEqual(
      [answer.status, answer.json],
      [422, { errors: { webhook_url: ['is not set: give the directory or the account a webhook URL first'] } }],
      path,
    );
  }
  assert.equal((await place.deliveries()).length, 2);
});

test('all that failed since a moment are replayed, the oldest first; asked twice, nothing is sent twice', async () => {
  await using place = await webhookPlace(await shared(), { eachOnce: true });
  await place.addFinished(3);
  const before = await place.deliveries();
  const since = before[0]?.inserted_at ?? '';
  const later = await place.addFinished(130);
  await place.addFinished(2, 'delivered');
  const { json, status } = await place.ask('POST', '/deliveries/replay', { since });
  assert.deepEqual([status, json], [202, { data: { count: 131 } }]);
  const replayed = async (): Promise<number> => (await place.deliveries('?limit=1000&state=delivered')).length - 2;
  assert.deepEqual((await place.ask('POST', '/deliveries/replay', { since })).json, { data: { count: 0 } });
  await until('all are delivered', async () => (await replayed()) === 131);
  assert.deepEqual((await place.ask('POST', '/deliveries/replay', { since })).json, { data: { count: 0 } });
  assert.equal(place.target.requests.length, 131);
  assert.equal(new Set(place.target.requests.map(({ body }) => body.toString())).size, 131);

  const { db } = place.api.database;
  const rows = await db.selectFrom('deliveries').selectAll().where('directory_id', '=', place.id).execute();
  const order = new Map(rows.map((row) => [row.id, row.inserted_at]));
  const old = await db.selectFrom('deliveries').selectAll().where('id', 'in', later).orderBy('inserted_at').execute();
  const times = old.map(({ replayed_as }) => order.get(replayed_as ?? '') ?? 0);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  // A later request adds the others.
  const all = { since: '2020-01-01T00:00:00+01:00' };
  assert.deepEqual((await place.ask('POST', '/deliveries/replay', all)).json, { data: { count: 2 } });
});

test('one that was replayed on its own is left out, and a replay that failed is not', async () => {
  await using place = await webhookPlace(await shared(), { respond: (response) => response.writeHead(410).end() });
  const [one] = await place.addFinished(2);
  const all = { since: '2020-01-01T00:00:00Z' };
  const again = dataOf<ShownDelivery>(await place.ask('POST', `/deliveries/${one}/replay`));
  await place.until(again.id, 'failed');
  // The second one, and the replay of the first.
  assert.deepEqual((await place.ask('POST', '/deliveries/replay', all)).json, { data: { count: 2 } });
});

test('the body of a bulk replay needs a time', async () => {
  await using place = await webhookPlace(await quiet());
  for (const [json, message] of [
    [{}, "can't be blank"],
    [{ since: null }, "can't be blank"],
    [{ since: 1 }, NO_TIME],
    [{ since: 'yesterday' }, NO_TIME],
    [{ since: '2026-11-20' }, NO_TIME],
    [{ since: '2026-11-20T10:00:00' }, NO_TIME],
    [{ since: '2026-13-20T10:00:00Z' }, NO_TIME],
  ] as const) {
    const answer = await place.ask('POST', '/deliveries/replay', json);
    assert.deepEqual([answer.status, answer.json], [422, { errors: { since: [message] } }], JSON.stringify(json));
  }
  const list = await place.ask('POST', '/deliveries/replay', []);
  assert.deepEqual([list.status, list.json], [422, { errors: { body: ['is invalid'] } }]);
  assert.equal((await place.ask('POST', '/deliveries/replay')).status, 415);
});

test('a file is announced as it is now, even if there was no webhook URL at its upload', async () => {
  await using place = await webhookPlace(await shared());
  await place.setUrl(null);
  const upload = await place.addFile('in/grün.csv');
  await place.setUrl(place.target.url);
  const answer = await place.ask('POST', `/uploads/${upload}/announce`);
  assert.equal(answer.status, 202);
  assert.deepEqual(Object.keys(dataOf<object>(answer)), FIELDS);
  const { body, headers } = await place.target.next();
  const { uploaded_at } = dataOf<{ uploaded_at: string }>(await place.ask('GET', `/uploads/${upload}`));
  assert.partialDeepStrictEqual(JSON.parse(body.toString()), {
    event: 'file.uploaded',
    directory_id: place.id,
    filename: 'in/grün.csv',
    size_bytes: 11,
    uploaded_at,
  });
  assert.equal(headers['webhook-id'], dataOf<ShownDelivery>(answer).id);
  const unknown = await place.ask('POST', `/uploads/${UNKNOWN}/announce`);
  assert.deepEqual([unknown.status, unknown.json], [404, { error: 'Upload not found' }]);
});

test('the audit says who requested what', async () => {
  await using place = await webhookPlace(await shared());
  const [failed] = await place.addFinished(2);
  const upload = await place.addFile('a');
  const replayed = dataOf<ShownDelivery>(await place.ask('POST', `/deliveries/${failed}/replay`));
  await place.ask('POST', '/deliveries/replay', { since: '2020-01-01T00:00:00Z' });
  const announced = dataOf<ShownDelivery>(await place.ask('POST', `/uploads/${upload}/announce`));
  const rows = await place.api.audit();
  assert.deepEqual(
    rows.slice(-3).map(({ action, key_id, changes }) => [action, key_id, JSON.parse(changes)]),
    [
      ['replay', place.api.tenant.keyId, { delivery_id: { from: failed, to: replayed.id } }],
      ['replay', place.api.tenant.keyId, { count: { from: null, to: 1 } }],
      [
        'announce',
        place.api.tenant.keyId,
        { upload_id: { from: null, to: upload }, delivery_id: { from: null, to: announced.id } },
      ],
    ],
  );
});

/** Trying a directory's webhook, and a new secret for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { dataOf } from '../support/field-sets.ts';
import type { Received } from '../support/receiver.ts';
import { type WebhookPlace, webhookPlace } from './webhook-place.ts';

interface Tried {
  readonly delivered: boolean;
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number;
}

const secretOf = async (place: WebhookPlace): Promise<string> =>
  dataOf<{ webhook_secret: string }>(await place.ask('GET', '')).webhook_secret;

async function tried(place: WebhookPlace): Promise<Tried> {
  const answer = await place.ask('POST', '/webhook/test');
  assert.equal(answer.status, 200);
  return dataOf<Tried>(answer);
}

/** The secrets by which the library and our own header verify the webhook. */
function verifiedBy(secrets: readonly string[], { body, headers }: Received): { library: string[]; own: string[] } {
  const isTaken = (secret: string): boolean => {
    try {
      return new Webhook(secret).verify(body, headers as Record<string, string>) !== undefined;
    } catch {
      return false;
    }
  };
  const own = String(headers['x-service-signature']);
  return { library: secrets.filter(isTaken), own: secrets.filter((secret) => verify(body, secret, own)) };
}

test('a test is one signed webhook that says so, and the answer is what the receiver said', async () => {
  await using place = await webhookPlace({
    respond: (response, _request, index) => response.writeHead(index === 0 ? 204 : 500).end(),
  });
  const { duration_ms, ...outcome } = await tried(place);
  assert.deepEqual(outcome, { delivered: true, status: 204, error: null });
  assert.ok(duration_ms > 0);
  const { body, headers } = await place.target.next();
  const { uploaded_at, ...fields } = JSON.parse(body.toString()) as Record<string, unknown>;
  assert.deepEqual(fields, {
    event: 'file.uploaded',
    directory_id: place.id,
    external_id: null,
    filename: 'test.txt',
    size_bytes: 0,
    directory: 'acme-corp',
    test: true,
  });
  assert.equal(typeof uploaded_at, 'string');
  const secret = await secretOf(place);
  assert.deepEqual(verifiedBy([secret], { body, headers } as Received), { library: [secret], own: [secret] });
  assert.partialDeepStrictEqual(await tried(place), { delivered: false, status: 500, error: null });
  // Once each. Only the audit is kept.
  assert.equal(place.target.requests.length, 2);
  assert.deepEqual(await place.deliveries(), []);
  const { action } = await place.api.database.db
    .selectFrom('audit')
    .select('action')
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow();
  assert.equal(action, 'test');
});

test('a receiver that cannot be reached, or that the guard refuses, is reported in words', async () => {
  await using place = await webhookPlace();
  await place.setUrl('http://127.0.0.1:1/hook');
  assert.partialDeepStrictEqual(await tried(place), { delivered: false, status: null });
  assert.match((await tried(place)).error ?? '', /ECONNREFUSED/);
  for (const [url, error] of [
    ['http://10.1.2.3/hook', 'destination 10.1.2.3 is not allowed'],
    ['http://169.254.169.254/latest/meta-data', 'destination 169.254.169.254 is not allowed'],
    ['https://[::ffff:10.1.2.3]/hook', 'destination ::ffff:a01:203 is not allowed'],
    ['http://[fd00::1]/', 'destination fd00::1 is not allowed'],
  ] as const) {
    await place.setUrl(url);
    const outcome = await tried(place);
    const words = 'webhooks go to public addresses only, unless the operator of this berth allows others';
    assert.equal(outcome.error, `${error}: ${words}`);
    assert.deepEqual([outcome.delivered, outcome.status], [false, null]);
  }
  assert.equal(place.target.connections(), 0);
});

test('a receiver that does not answer is waited for no longer than an attempt', async () => {
  await using place = await webhookPlace({ respond: () => undefined });
  const outcome = await tried(place);
  assert.deepEqual([outcome.delivered, outcome.error], [false, 'no answer within 5 s']);
});

test('a new secret in two steps: both are valid between them, and no webhook is refused', async () => {
  await using place = await webhookPlace();
  const old = await secretOf(place);
  const first = await place.ask('POST', '/webhook_secret');
  assert.equal(first.status, 200);
  assert.equal(first.headers['cache-control'], 'no-store');
  const { secret, active } = dataOf<{ secret: string; active: boolean }>(first);
  assert.match(secret, /^[A-Za-z0-9+/]{32}$/);
  assert.deepEqual([active, await secretOf(place)], [false, old]);
  await tried(place);
  const both = [old, secret];
  assert.deepEqual(verifiedBy(both, await place.target.next()), { library: both, own: [old] });

  const second = await place.ask('POST', '/webhook_secret', { activate: true });
  assert.deepEqual(dataOf(second), { secret, active: true });
  assert.equal(await secretOf(place), secret);
  await tried(place);
  assert.deepEqual(verifiedBy(both, await place.target.next()), { library: [secret], own: [secret] });
  // A repeated second step changes nothing.
  const again = await place.ask('POST', '/webhook_secret', { activate: true });
  assert.equal(again.status, 422);
  assert.equal(await secretOf(place), secret);
});

test('asked again before it is activated, a newer one takes its place', async () => {
  await using place = await webhookPlace({ dispatches: false });
  const ask = async (json: object): Promise<string> =>
    dataOf<{ secret: string }>(await place.ask('POST', '/webhook_secret', json)).secret;
  const dropped = await ask({});
  const newer = await ask({ activate: false });
  assert.notEqual(newer, dropped);
  assert.equal(await ask({ activate: true }), newer);
});

test('a caller may choose the secret and activate it at once; repeating the request changes nothing', async () => {
  await using place = await webhookPlace({ dispatches: false });
  const ask = async (json: object | string) => place.ask('POST', '/webhook_secret', json);
  const [own, other] = ['x'.repeat(16), `whsec_${'y'.repeat(58)}`];
  assert.deepEqual(dataOf(await ask({ secret: own })), { secret: own, active: false });
  assert.deepEqual(dataOf(await ask({ activate: true, secret: other })), { secret: other, active: true });
  assert.deepEqual(dataOf(await ask({ activate: true, secret: other })), { secret: other, active: true });
  assert.equal(await secretOf(place), other);
  // The one that was prepared before went with it.
  assert.equal((await ask({ activate: true })).status, 422);
  for (const [json, field, message] of [
    [{ secret: 'x'.repeat(15) }, 'secret', 'should be at least 16 character(s)'],
    [{ secret: 'x'.repeat(65) }, 'secret', 'should be at most 64 character(s)'],
    [{ secret: `${'x'.repeat(16)}\n` }, 'secret', 'must be printable ASCII without blanks'],
    [{ secret: 'ä'.repeat(16) }, 'secret', 'must be printable ASCII without blanks'],
    [{ secret: 1 }, 'secret', 'is invalid'],
    [{ secret: null }, 'secret', 'is invalid'],
    [{ secret: other }, 'secret', 'is in use already'],
    [{ activate: 'yes' }, 'activate', 'is invalid'],
    [[], 'body', 'is invalid'],
    ['{}', 'body', 'is invalid'],
  ] as const) {
    const answer = await ask(json);
    assert.deepEqual([answer.status, answer.json], [422, { errors: { [field]: [message] } }], JSON.stringify(json));
  }
});

test('only admins change the secret, and the audit names the field without its value', async () => {
  await using place = await webhookPlace({ dispatches: false });
  const { api } = place;
  const member = await api.key(api.tenant.accountId, 'member');
  const path = `/directories/${place.id}/webhook_secret`;
  assert.equal((await member('POST', path, { body: 'no JSON' })).status, 403);
  const { secret } = dataOf<{ secret: string }>(await place.ask('POST', '/webhook_secret'));
  await place.ask('POST', '/webhook_secret', { activate: true });
  const rows = await api.database.db.selectFrom('audit').selectAll().orderBy('id').execute();
  assert.deepEqual(
    rows.slice(-2).map(({ action, changes }) => [action, JSON.parse(changes)]),
    [
      ['update', { next_webhook_secret: {} }],
      ['update', { webhook_secret: {}, next_webhook_secret: {} }],
    ],
  );
  assert.ok(!JSON.stringify(rows).includes(secret));
  assert.ok(![...api.log, ...api.requestLines].join().includes(secret));
});

test('with an Idempotency-Key a lost answer is given again, secret included', async () => {
  await using place = await webhookPlace({ dispatches: false });
  const headers = { 'idempotency-key': 'rotation-1' };
  const path = `/directories/${place.id}/webhook_secret`;
  const [once, twice] = [
    await place.api.send('POST', path, { headers }),
    await place.api.send('POST', path, { headers }),
  ];
  assert.deepEqual([once.status, twice.status, twice.text], [200, 200, once.text]);
  const { secret } = dataOf<{ secret: string }>(once);
  assert.equal(
    dataOf<{ secret: string }>(await place.ask('POST', '/webhook_secret', { activate: true })).secret,
    secret,
  );
});

test('each new endpoint refuses requests without a key, on a plan without the API, from other accounts, and over the rate limit', async () => {
  await using place = await webhookPlace({ dispatches: false });
  const { api } = place;
  const upload = await place.addFile('a');
  const [delivery] = await place.addFinished(1);
  const since = { since: '2020-01-01T00:00:00Z' };
  const endpoints = [
    ['GET', '/deliveries', undefined],
    ['POST', `/deliveries/${delivery}/replay`, undefined],
    ['POST', '/deliveries/replay', since],
    ['POST', `/uploads/${upload}/announce`, undefined],
    ['POST', '/webhook/test', undefined],
    ['POST', '/webhook_secret', {}],
  ] as const;
  const [poor, stranger] = [await api.account('starter'), await api.account('business')];
  for (const [method, path, json] of endpoints) {
    const url = `/directories/${place.id}${path}`;
    const options = json === undefined ? {} : { json };
    assert.equal((await api.send(method, url, { ...options, authorization: null })).status, 401, path);
    assert.equal((await poor.send(method, url, options)).status, 403, path);
    const foreign = await stranger.send(method, url, options);
    assert.deepEqual([foreign.status, foreign.json], [404, { error: 'Directory not found' }], path);
  }
  await using limited = await webhookPlace({ dispatches: false, rateLimit: 2 });
  // Its directory has used them up.
  for (const [method, path, json] of endpoints) assert.equal((await limited.ask(method, path, json)).status, 429, path);
});

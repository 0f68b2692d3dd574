/** Trying a webhook, a new secret for it, and /api/v1/webhook: one receiver for all directories of an account without a URL of their own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { enqueue } from '../../src/deliveries/webhooks/outbox.ts';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { dataOf } from '../support/field-sets.ts';
import { sharedHosted } from '../support/hosted.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { type WebhookPlace, webhookPlace } from './webhook-place.ts';

const shared = sharedHosted({ dispatches: true });

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
  await using place = await webhookPlace(await shared(), {
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
  assert.equal((await place.api.audit()).at(-1)?.action, 'test');
});

test('a receiver that cannot be reached, or that the guard refuses, is reported in words', async () => {
  await using place = await webhookPlace(await shared());
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
  await using place = await webhookPlace(await shared(), { respond: () => undefined });
  const outcome = await tried(place);
  assert.deepEqual([outcome.delivered, outcome.error], [false, 'no answer within 5 s']);
});

test('a new secret in two steps: both are valid between them, and no webhook is refused', async () => {
  await using place = await webhookPlace(await shared());
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
  await using place = await webhookPlace(await shared());
  const ask = async (json: object): Promise<string> =>
    dataOf<{ secret: string }>(await place.ask('POST', '/webhook_secret', json)).secret;
  const dropped = await ask({});
  const newer = await ask({ activate: false });
  assert.notEqual(newer, dropped);
  assert.equal(await ask({ activate: true }), newer);
});

test('a caller may choose the secret and activate it at once; repeating the request changes nothing', async () => {
  await using place = await webhookPlace(await shared());
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
  await using place = await webhookPlace(await shared());
  const { api } = place;
  const member = await api.key(api.tenant.accountId, 'member');
  const path = `/directories/${place.id}/webhook_secret`;
  assert.equal((await member('POST', path, { body: 'no JSON' })).status, 403);
  const { secret } = dataOf<{ secret: string }>(await place.ask('POST', '/webhook_secret'));
  await place.ask('POST', '/webhook_secret', { activate: true });
  const rows = await api.audit();
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

interface Shown {
  readonly url: string | null;
  readonly secret: string;
}

test('directories without a URL announce to the account’s, signed with its secret; one with a URL overrides both', async () => {
  await using place = await webhookPlace(await shared());
  await using account = await receiver();
  const { send, directory } = place.api;
  assert.deepEqual((await send('GET', '/webhook')).json, { data: { url: null, secret: null } });
  const { id, webhook_secret: own } = await directory({ name: 'Without' });
  const unset = await send('POST', `/directories/${id}/webhook/test`);
  const words = 'is not set: give the directory or the account a webhook URL first';
  assert.deepEqual([unset.status, unset.json], [422, { errors: { webhook_url: [words] } }]);

  const { url, secret } = dataOf<Shown>(await send('PUT', '/webhook', { json: { url: account.url } }));
  assert.equal(url, account.url);
  assert.match(secret, /^[A-Za-z\d+/]{32}$/);
  assert.notEqual(secret, own);
  assert.equal(dataOf<Shown>(await send('GET', '/webhook')).secret, secret);
  await send('POST', `/directories/${id}/webhook/test`);
  const tested = await account.next();
  assert.equal((JSON.parse(tested.body.toString()) as { directory_id: string }).directory_id, id);
  assert.ok(verify(tested.body, secret, String(tested.headers['x-service-signature'])));

  const upload = await place.addFile('own.csv');
  await place.ask('POST', `/uploads/${upload}/announce`);
  const { body, headers } = await place.target.next();
  assert.equal(verify(body, secret, String(headers['x-service-signature'])), false, 'the directory has its own');
  await place.setUrl(null);
  await place.ask('POST', `/uploads/${upload}/announce`);
  const announced = await account.next();
  assert.ok(verify(announced.body, secret, String(announced.headers['x-service-signature'])));
  assert.equal(announced.headers['webhook-upload-id'], upload);
  assert.equal(account.requests.length, 2);
  await place.api.database.db.transaction().execute(async (tx) => {
    const row = await tx.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    await enqueue(tx, { directory: row, uploadId: null, filename: 'uploaded.csv', sizeBytes: 1, uploadedAt: 1 });
    const delivery = await tx.selectFrom('deliveries').select('url').where('directory_id', '=', id).executeTakeFirst();
    assert.equal(delivery?.url, account.url, 'an upload is announced there');
  });
  const shown = dataOf<{ webhook_url: null }>(await place.ask('GET', ''));
  assert.equal(shown.webhook_url, null, 'the field is the directory’s own');
});

test('its secret is replaced in two steps; another account has another; the audit names no secret', async () => {
  await using place = await webhookPlace(await shared());
  await using account = await receiver();
  const { send } = place.api;
  const { secret: first } = dataOf<Shown>(await send('PUT', '/webhook', { json: { url: account.url } }));
  const prepared = dataOf<{ secret: string; active: boolean }>(await send('POST', '/webhook/secret'));
  assert.equal(prepared.active, false);
  await place.setUrl(null);
  const upload = await place.addFile('a');
  const announce = async () => {
    await place.ask('POST', `/uploads/${upload}/announce`);
    const { body, headers } = await account.next();
    return [
      verify(body, first, String(headers['x-service-signature'])),
      String(headers['webhook-signature']).split(' ').length,
    ];
  };
  assert.deepEqual(await announce(), [true, 2]);
  const active = dataOf<object>(await send('POST', '/webhook/secret', { json: { activate: true } }));
  assert.deepEqual(active, { secret: prepared.secret, active: true });
  assert.deepEqual(await announce(), [false, 1]);
  const again = await send('POST', '/webhook/secret', { json: { activate: true } });
  assert.equal(again.status, 422);

  const stranger = await place.api.account('pro');
  assert.deepEqual((await stranger.send('GET', '/webhook')).json, { data: { url: null, secret: null } });
  const member = await place.api.key(place.api.tenant.accountId, 'member');
  assert.equal((await member('PUT', '/webhook', { json: { url: null } })).status, 403);
  assert.equal((await member('POST', '/webhook/secret')).status, 403);
  const refused = await send('PUT', '/webhook', { json: { url: 'ftp://x' } });
  assert.deepEqual(refused.json, { errors: { url: ['must start with https:// or http://'] } });
  const audit = await place.api.audit();
  const own = audit.filter(({ action }) => action === 'update-account');
  assert.equal(own.length, 3);
  assert.equal(JSON.stringify(own).includes(first) || JSON.stringify(own).includes(prepared.secret), false);
});

test('a directory turns webhooks off although its account has a URL, and on again', async () => {
  await using place = await webhookPlace(await shared());
  await using account = await receiver();
  const { send, directory, database } = place.api;
  await send('PUT', '/webhook', { json: { url: account.url } });
  const { id } = await directory({ name: 'Quiet' });
  const path = `/directories/${id}/webhook`;
  assert.deepEqual((await send('GET', path)).json, {
    data: { webhook_url: null, uses_account_webhook: true, sends_to: account.url },
  });
  const off = { webhook_url: null, uses_account_webhook: false };
  const member = await place.api.key(place.api.tenant.accountId, 'member');
  assert.deepEqual((await member('PATCH', path, { json: off })).json, { data: { ...off, sends_to: null } });

  const announced = () =>
    database.db.transaction().execute(async (tx) => {
      const row = await tx.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
      return enqueue(tx, { directory: row, uploadId: null, filename: 'quiet.csv', sizeBytes: 1, uploadedAt: 1 });
    });
  assert.deepEqual(await announced(), [], 'an upload is announced nowhere');
  assert.equal(dataOf<unknown[]>(await send('GET', '/events')).length, 1, 'but it is in the feed');
  const tested = await send('POST', `${path}/test`);
  const words = "is not set: give the directory a webhook URL, or let it use the account's again";
  assert.deepEqual([tested.status, tested.json], [422, { errors: { webhook_url: [words] } }]);
  assert.equal(account.requests.length, 0);

  const own = { webhook_url: `${account.url}own`, sends_to: `${account.url}own` };
  const set = await send('PATCH', path, { json: { webhook_url: own.webhook_url } });
  assert.deepEqual(set.json, { data: { ...own, uses_account_webhook: false } }, 'a URL of its own still counts');
  await send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: null } } });
  assert.deepEqual((await send('GET', path)).json, { data: { ...off, sends_to: null } });
  const on = await send('PATCH', path, { json: { uses_account_webhook: true } });
  assert.deepEqual(on.json, { data: { webhook_url: null, uses_account_webhook: true, sends_to: account.url } });
  assert.equal((await announced()).length, 1);

  for (const [json, errors] of [
    [{ uses_account_webhook: 'no' }, { uses_account_webhook: ['is invalid'] }],
    [{ uses_account_webhook: null }, { uses_account_webhook: ["can't be blank"] }],
    [{ use_account_webhook: false }, { use_account_webhook: ['is unknown'] }],
    [{ webhook_url: 'ftp://x' }, { webhook_url: ['must start with https:// or http://'] }],
  ] as const)
    assert.deepEqual((await send('PATCH', path, { json })).json, { errors });
  const stranger = await place.api.account('pro');
  for (const method of ['GET', 'PATCH'] as const)
    assert.equal((await stranger.send(method, path, method === 'PATCH' ? { json: off } : {})).status, 404);
  const audit = await place.api.audit();
  assert.ok(audit.some(({ changes }) => changes.includes('"uses_account_webhook":{"from":true,"to":false}')));
});

test('deliveries that are still queued when a directory turns webhooks off fail, and say why', async () => {
  await using place = await webhookPlace(await shared());
  // It refuses once webhooks are turned off, so that no other attempt comes first.
  const turnOff = () => place.ask('PATCH', '/webhook', { uses_account_webhook: false });
  await using account = await receiver({
    respond: (response) => void turnOff().then(() => response.writeHead(503).end()),
  });
  await place.api.send('PUT', '/webhook', { json: { url: account.url } });
  await place.setUrl(null);
  const upload = await place.addFile('a');
  const { id } = dataOf<{ id: string }>(await place.ask('POST', `/uploads/${upload}/announce`));
  const { attempts } = await place.until(id, 'failed');
  assert.deepEqual(
    attempts.map(({ status, error }) => [status, error]),
    [
      [503, null],
      [null, 'the directory has no webhook URL any more'],
    ],
  );
  assert.equal(account.requests.length, 1);
});

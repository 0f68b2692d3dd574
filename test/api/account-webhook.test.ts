/** /api/v1/webhook: one receiver for all directories of an account without a URL of their own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { enqueue } from '../../src/deliveries/webhooks/outbox.ts';
import { dataOf } from '../support/field-sets.ts';
import { receiver } from '../support/receiver.ts';
import { webhookPlace } from './webhook-place.ts';

interface Shown {
  readonly url: string | null;
  readonly secret: string;
}

test('directories without a URL announce to the account’s, signed with its secret; one with a URL overrides both', async () => {
  await using place = await webhookPlace();
  await using shared = await receiver();
  const { send, directory } = place.api;
  assert.deepEqual((await send('GET', '/webhook')).json, { data: { url: null, secret: null } });
  const { id, webhook_secret: own } = await directory({ name: 'Without' });
  const unset = await send('POST', `/directories/${id}/webhook/test`);
  const words = 'is not set: give the directory or the account a webhook URL first';
  assert.deepEqual([unset.status, unset.json], [422, { errors: { webhook_url: [words] } }]);

  const { url, secret } = dataOf<Shown>(await send('PUT', '/webhook', { json: { url: shared.url } }));
  assert.equal(url, shared.url);
  assert.match(secret, /^[A-Za-z\d+/]{32}$/);
  assert.notEqual(secret, own);
  assert.equal(dataOf<Shown>(await send('GET', '/webhook')).secret, secret);
  await send('POST', `/directories/${id}/webhook/test`);
  const tested = await shared.next();
  assert.equal((JSON.parse(tested.body.toString()) as { directory_id: string }).directory_id, id);
  assert.ok(verify(tested.body, secret, String(tested.headers['x-service-signature'])));

  const upload = await place.addFile('own.csv');
  await place.ask('POST', `/uploads/${upload}/announce`);
  const { body, headers } = await place.target.next();
  assert.equal(verify(body, secret, String(headers['x-service-signature'])), false, 'the directory has its own');
  await place.setUrl(null);
  await place.ask('POST', `/uploads/${upload}/announce`);
  const announced = await shared.next();
  assert.ok(verify(announced.body, secret, String(announced.headers['x-service-signature'])));
  assert.equal(announced.headers['webhook-upload-id'], upload);
  assert.equal(shared.requests.length, 2);
  await place.api.database.db.transaction().execute(async (tx) => {
    const row = await tx.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    await enqueue(tx, { directory: row, uploadId: null, filename: 'uploaded.csv', sizeBytes: 1, uploadedAt: 1 });
    const delivery = await tx.selectFrom('deliveries').select('url').where('directory_id', '=', id).executeTakeFirst();
    assert.equal(delivery?.url, shared.url, 'an upload is announced there');
  });
  const shown = dataOf<{ webhook_url: null }>(await place.ask('GET', ''));
  assert.equal(shown.webhook_url, null, 'the field is the directory’s own');
});

test('its secret is replaced in two steps; another account has another; the audit names no secret', async () => {
  await using place = await webhookPlace();
  await using shared = await receiver();
  const { send } = place.api;
  const { secret: first } = dataOf<Shown>(await send('PUT', '/webhook', { json: { url: shared.url } }));
  const prepared = dataOf<{ secret: string; active: boolean }>(await send('POST', '/webhook/secret'));
  assert.equal(prepared.active, false);
  await place.setUrl(null);
  const upload = await place.addFile('a');
  const announce = async () => {
    await place.ask('POST', `/uploads/${upload}/announce`);
    const { body, headers } = await shared.next();
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
  const audit = await place.api.database.db.selectFrom('audit').select(['action', 'changes']).execute();
  const own = audit.filter(({ action }) => action === 'update-account');
  assert.equal(own.length, 3);
  assert.equal(JSON.stringify(own).includes(first) || JSON.stringify(own).includes(prepared.secret), false);
});

test('a directory turns webhooks off although its account has a URL, and on again', async () => {
  await using place = await webhookPlace();
  await using shared = await receiver();
  const { send, directory, database } = place.api;
  await send('PUT', '/webhook', { json: { url: shared.url } });
  const { id } = await directory({ name: 'Quiet' });
  const path = `/directories/${id}/webhook`;
  assert.deepEqual((await send('GET', path)).json, {
    data: { webhook_url: null, uses_account_webhook: true, sends_to: shared.url },
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
  assert.equal((await database.db.selectFrom('events').selectAll().execute()).length, 1, 'but it is in the feed');
  const tested = await send('POST', `${path}/test`);
  const words = "is not set: give the directory a webhook URL, or let it use the account's again";
  assert.deepEqual([tested.status, tested.json], [422, { errors: { webhook_url: [words] } }]);
  assert.equal(shared.requests.length, 0);

  const own = { webhook_url: `${shared.url}own`, sends_to: `${shared.url}own` };
  const set = await send('PATCH', path, { json: { webhook_url: own.webhook_url } });
  assert.deepEqual(set.json, { data: { ...own, uses_account_webhook: false } }, 'a URL of its own still counts');
  await send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: null } } });
  assert.deepEqual((await send('GET', path)).json, { data: { ...off, sends_to: null } });
  const on = await send('PATCH', path, { json: { uses_account_webhook: true } });
  assert.deepEqual(on.json, { data: { webhook_url: null, uses_account_webhook: true, sends_to: shared.url } });
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
  const audit = await database.db.selectFrom('audit').select('changes').where('action', '=', 'update').execute();
  assert.ok(audit.some(({ changes }) => changes.includes('"uses_account_webhook":{"from":true,"to":false}')));
});

test('deliveries that are still queued when a directory turns webhooks off fail, and say why', async () => {
  await using place = await webhookPlace();
  // It refuses once webhooks are turned off, so that no other attempt comes first.
  const turnOff = () => place.ask('PATCH', '/webhook', { uses_account_webhook: false });
  await using shared = await receiver({
    respond: (response) => void turnOff().then(() => response.writeHead(503).end()),
  });
  await place.api.send('PUT', '/webhook', { json: { url: shared.url } });
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
  assert.equal(shared.requests.length, 1);
});

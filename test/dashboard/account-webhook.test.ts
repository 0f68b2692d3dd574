/** The account's webhook on its page, which plans without the API need: its secret, a new one in two steps, and a test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { dataOf } from '../support/field-sets.ts';
import { dashboardPlaces, secretsIn, textOf } from './webhook-place.ts';

const dashboardPlace = dashboardPlaces();

const PATH = '/dashboard/account';

test('a URL is tested and its secret shown and replaced on the page alone', async () => {
  await using place = await dashboardPlace();
  const { admin, member, berth } = place;
  await place.setUrl(null);
  assert.doesNotMatch((await admin.get(PATH)).text, /Send test|Signing secret/);
  await admin.submit(`${PATH}/webhook`, { url: berth.receiver.url });
  const page = await admin.get(PATH);
  assert.doesNotMatch(textOf(page.text), /\/api\/v1\/webhook/);
  assert.deepEqual(secretsIn(page.text), []);

  const [secret = ''] = secretsIn((await member.submit(`${PATH}/webhook/secret/show`)).text);
  assert.equal(secret, dataOf<{ secret: string }>(await berth.send('GET', '/webhook')).secret);
  assert.deepEqual(secretsIn((await member.get(PATH)).text), []);
  const trial = await member.post(`${PATH}/webhook/test`);
  assert.match(textOf(trial.text), /Account.*Accepted.*204.*Request.*Where webhooks go/s);
  const { body, headers } = await berth.receiver.next();
  assert.ok(new Webhook(secret).verify(body, headers as Record<string, string>));
  assert.match(
    textOf((await member.get(place.path)).text),
    /Webhook works.*Latest deliveries.*test\.txtdeliveredtest204/s,
  );

  const [old, made] = secretsIn((await admin.submit(`${PATH}/webhook/secret`)).text);
  assert.equal(old, secret);
  assert.match((await admin.submit(`${PATH}/webhook/secret/activate`)).text, /The new secret is active\./);
  assert.deepEqual(secretsIn((await admin.submit(`${PATH}/webhook/secret/show`)).text), [made]);
  for (const form of ['/secret', '/secret/activate'])
    assert.equal((await member.post(`${PATH}/webhook${form}`)).status, 403, form);
  const actions = (await place.audit()).map(({ action }) => action);
  assert.deepEqual(actions, [
    'update-account',
    'show-secret',
    'test',
    'update-account',
    'update-account',
    'show-secret',
  ]);
});

test('without a directory that uses the URL, a test says what is missing', async () => {
  await using place = await dashboardPlace();
  const { admin, berth } = place;
  await place.setUrl(berth.receiver.url);
  await admin.post(`${PATH}/webhook`, { url: berth.receiver.url });
  const refused = await admin.post(`${PATH}/webhook/test`);
  assert.equal(refused.status, 422);
  assert.match(refused.text, /There is nothing to test\. Save a URL, and create a directory without/);
  assert.equal(berth.receiver.requests.length, 0);
});

/** The Webhook page: its URL, its secret, a test, and what a receiver can do to it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { dataOf } from '../support/field-sets.ts';
import { until } from '../support/poll.ts';
import { dashboardPlaces, preformatted, secretsIn, textOf } from './webhook-place.ts';

const dashboardPlace = dashboardPlaces();

const KIB = 1024;

test('the URL is set, refused in words and removed, as by the API', async () => {
  await using place = await dashboardPlace();
  const { member, path } = place;
  const url = 'https://example.com/hook?token=a&b="<script>"';
  const saved = await member.submit(path, { webhook_url: ` ${encodeURI(url)} ` });
  assert.equal(saved.status, 200);
  assert.match(saved.text, /The URL is saved\./);
  assert.match(saved.text, /<label for="webhook_url">Webhook URL<\/label>/);
  assert.equal((await place.settings()).webhook_url, encodeURI(url));
  const [row] = await place.audit();
  assert.deepEqual(
    [row?.action, row?.key_id, row?.route],
    ['update', `user:${member.email}`, 'POST /dashboard/directories/:id/webhook'],
  );

  const wrong = await member.post(path, { webhook_url: 'ftp://"><script>alert(1)</script>' });
  assert.equal(wrong.status, 422);
  assert.match(wrong.text, /Start the URL with https:\/\/ or http:\/\/\./);
  assert.match(wrong.text, /value="ftp:\/\/&quot;&gt;&lt;script&gt;/);
  assert.equal((await place.settings()).webhook_url, encodeURI(url));

  const forbidden = await member.submit(path, { webhook_url: 'http://10.1.2.3/hook' });
  assert.match(forbidden.text, /webhooks to 10\.1\.2\.3 will be refused: it is not a public address/);
  assert.doesNotMatch(saved.text, /will be refused/);

  const removed = await member.submit(path, { webhook_url: '' });
  assert.match(removed.text, /This directory uses the account’s webhook\./);
  assert.doesNotMatch(removed.text, /Send test/);
  assert.equal((await place.settings()).webhook_url, null);
  assert.equal((await place.audit()).length, 3);
  const empty = await member.post(path, { to: 'own', webhook_url: ' ' });
  assert.equal(empty.status, 422);
  assert.match(empty.text, /Enter a webhook URL\./);
  // The choice counts, not what an unseen field still has.
  await member.submit(path, { to: 'off', webhook_url: url });
  assert.equal((await place.settings()).webhook_url, null);
});

test('with the account’s URL alone a test can be sent, and webhooks be turned off for the directory', async () => {
  await using place = await dashboardPlace();
  const { berth, member, path } = place;
  const files = path.replace(/\/webhook$/, '/files');
  await place.setUrl(null);
  const none = await member.get(path);
  assert.doesNotMatch(none.text, /Send test/);
  assert.match((await member.get(files)).text, /No webhook</);

  await berth.send('PUT', '/webhook', { json: { url: berth.receiver.url } });
  const shared = await member.get(path);
  assert.match(textOf(shared.text), /To the account’s URL, http:\/\/127\.0\.0\.1:\d+\/hook/);
  assert.match(shared.text, /Send test/);
  assert.match((await member.get(files)).text, /Webhook not tried yet</);
  await member.post(`${path}/test`);
  assert.match(String((await berth.receiver.next()).body), /"test":true/);
  await place.addDelivery({ state: 'failed' });
  assert.match(textOf((await member.get(path)).text), /Webhook failing, started just now/);
  const failed = `/dashboard/deliveries?directory=${place.directory.id}&amp;state=failed`;
  for (const page of [path, files]) assert.ok((await member.get(page)).text.includes(`href="${failed}"`), page);
  assert.match(textOf((await member.get('/dashboard/deliveries')).text), /Acme → .*not delivered/s);

  const off = await member.submit(path, { to: 'off', webhook_url: '' });
  assert.match(textOf(off.text), /Webhooks are off for this directory\./);
  assert.doesNotMatch(off.text, /Send test|Webhook failing/);
  assert.doesNotMatch((await member.get('/dashboard/deliveries')).text, /not delivered/);
  const on = await member.submit(path, { to: 'account', webhook_url: '' });
  assert.match(textOf(on.text), /This directory uses the account’s webhook\./);
  assert.match(on.text, /Send test/);
  const changes = (await place.audit()).map((row) => row.changes).filter((text) => text.includes('uses_account'));
  assert.equal(changes.length, 2);
});

test('the secret is shown when it is asked for, once, in no address, and the audit says to whom', async () => {
  await using place = await dashboardPlace();
  const { member, path, directory } = place;
  const page = await member.get(path);
  assert.ok(!page.text.includes(directory.secret));
  const asked = await member.post(`${path}/secret/show`);
  assert.deepEqual([asked.status, asked.headers.location], [303, path]);
  // What the cookie carries says nothing without the session's.
  assert.ok(!String(asked.headers['set-cookie']).includes(directory.secret));
  const shown = await member.get(path);
  assert.deepEqual(secretsIn(shown.text), [directory.secret]);
  assert.equal(shown.headers['cache-control'], 'no-store');
  assert.deepEqual(secretsIn((await member.get(path)).text), []);
  assert.deepEqual(
    (await place.audit()).map(({ action, key_id, changes }) => [action, key_id, changes]),
    [['show-secret', `user:${member.email}`, '{}']],
  );
});

test('a new secret in two steps: no webhook is refused between them', async () => {
  await using place = await dashboardPlace();
  const { admin, member, path, directory, berth } = place;
  const signers = async (secrets: readonly string[]): Promise<string[]> => {
    await admin.post(`${path}/test`);
    const { body, headers } = await berth.receiver.next();
    return secrets.filter((secret) => {
      try {
        return new Webhook(secret).verify(body, headers as Record<string, string>) !== undefined;
      } catch {
        return false;
      }
    });
  };
  const early = await admin.post(`${path}/secret/activate`);
  assert.equal(early.status, 422);
  assert.match(early.text, /There is no new secret to activate/);

  const first = await admin.submit(`${path}/secret`);
  const [old, made = ''] = secretsIn(first.text);
  assert.equal(old, directory.secret);
  assert.match(made, /^[\w+/]{32}$/);
  assert.match(textOf(first.text), /Step 2 of 2/);
  assert.equal((await place.settings()).webhook_secret, directory.secret);
  assert.deepEqual(await signers([directory.secret, made]), [directory.secret, made]);

  // A member sees what the API shows a member.
  await member.post(`${path}/secret/show`);
  const seen = await member.get(path);
  assert.deepEqual(secretsIn(seen.text), [directory.secret]);
  assert.doesNotMatch(seen.text, /Create new secret|Switch to the new secret/);

  const second = await admin.submit(`${path}/secret/activate`);
  assert.match(second.text, /The new secret is active/);
  assert.equal((await place.settings()).webhook_secret, made);
  assert.deepEqual(await signers([directory.secret, made]), [made]);

  const short = await admin.post(`${path}/secret`, { secret: '"short"' });
  assert.equal(short.status, 422);
  assert.match(short.text, /Use at least 16 characters\./);
  const own = 'a-secret-of-my-own';
  assert.deepEqual(secretsIn((await admin.submit(`${path}/secret`, { secret: own })).text), [made, own]);
});

test('a member replaces no secret, and another account finds nothing', async () => {
  await using place = await dashboardPlace();
  const { admin, member, stranger, path, directory } = place;
  for (const form of ['/secret', '/secret/activate']) {
    assert.equal((await member.post(path + form)).status, 403, form);
  }
  const unknown = path.replace(directory.id, randomUUID());
  for (const form of ['', '/test', '/secret', '/secret/show', '/secret/activate']) {
    assert.equal((await stranger.post(path + form)).status, 404, form);
    assert.equal((await admin.post(unknown + form)).status, 404, form);
  }
  assert.equal((await stranger.get(path)).status, 404);
  assert.equal((await admin.get(unknown)).status, 404);
  assert.deepEqual(await place.audit(), []);
  assert.equal((await place.settings()).webhook_secret, directory.secret);
  assert.equal(place.berth.receiver.requests.length, 0);
});

test('a test shows the request as it was received, and the answer', async () => {
  await using place = await dashboardPlace({
    respond: (response) => response.writeHead(418).end('I am\r\na teapot'),
  });
  const { member, path, berth } = place;
  await place.setUrl(`${berth.receiver.url}?a=1&b=<2>`.replace('<2>', '%3C2%3E'));
  const page = await member.post(`${path}/test`);
  assert.equal(page.status, 200);
  const { headers, body, path: target } = await berth.receiver.next();
  const { connection, ...sent } = headers;
  assert.equal(typeof connection, 'string');
  const [excerpt, head = '', shownBody] = preformatted(page.text);
  const [line, ...shownHeaders] = head.split('\n');
  assert.equal(line, `POST ${berth.receiver.url.replace('/hook', target)}`);
  const lines = shownHeaders.map((header) => header.split(/: (.*)/));
  assert.deepEqual(Object.fromEntries(lines.map(([name = '', value]) => [name.toLowerCase(), value])), sent);
  assert.equal(shownBody, body.toString());
  assert.equal(excerpt, 'I am\na teapot');
  assert.match(textOf(page.text), /✗ Failed.*418.*\d(\.\d)? ms/s);
  // Loaded again by its address alone, it tries nothing.
  assert.equal((await member.get(`${path}/test`)).headers.location, path);
  assert.equal(berth.receiver.requests.length, 1);
  assert.deepEqual(
    (await place.audit()).map(({ action }) => action),
    ['test'],
  );
});

test('why there is no answer is said in words', async () => {
  await using place = await dashboardPlace();
  const { admin, path } = place;
  for (const [url, words] of [
    ['http://127.0.0.1:1/', /✗ Failed.*connection refused by 127\.0\.0\.1:1/s],
    // As the URL has it: not the address behind the name, and no credentials.
    ['http://user:secret@localhost:1/', /✗ Failed.*Errorconnection refused by localhost:1Time/s],
    ['http://10.1.2.3/', /Nothing was sent.*destination 10\.1\.2\.3 is not allowed: webhooks go to public addresses/s],
  ] as const) {
    await place.setUrl(url);
    assert.match(textOf((await admin.post(`${path}/test`)).text), words);
  }
  await place.setUrl(null);
  const none = await admin.post(`${path}/test`);
  assert.equal(none.status, 422);
  assert.match(none.text, /Enter a webhook URL\./);
});

test('the answer of a receiver is shown as text, and not much of it', async () => {
  const hostile = [
    '<script>alert(1)</script><img src=x onerror=alert(1)>',
    '</pre></main></html>\u202Egpj.exe\u0000\u001B[31m',
    Buffer.from([0xff, 0xfe, 0x00, 0x80, 0xc3, 0x28]),
    '\u200B'.repeat(100_000),
    '\n'.repeat(100_000),
    '"&<'.repeat(100_000),
  ];
  await using place = await dashboardPlace({
    respond: (response, _request, index) => response.writeHead(200).end(hostile[index]),
  });
  const pages: string[] = [];
  for (const _ of hostile) pages.push((await place.admin.post(`${place.path}/test`)).text);
  for (const page of pages) {
    assert.doesNotMatch(page, /<script>|<img|\u202E|\u0000|\u001B|\u200B/);
    assert.equal(page.match(/<\/main>/g)?.length, 1);
    const result = page.slice(page.indexOf('<div role="status">'), page.indexOf('Where webhooks go'));
    assert.ok(result.length > 100 && result.length < 10 * KIB, `${result.length} characters`);
  }
  assert.equal(preformatted(pages[0] ?? '')[0], hostile[0]);
  assert.match(pages[1] ?? '', /&lt;\/pre&gt;.*U\+202E.*U\+0000 U\+001B/s);
  assert.match(preformatted(pages[2] ?? '')[0] ?? '', /^\uFFFD+U\+0000\uFFFD+\($/);
  assert.match(preformatted(pages[3] ?? '')[0] ?? '', /^(?:U\+200B ?){40,}…$/);
});

test('an account can test a few webhooks at once, by API or dashboard', async () => {
  const held: (() => void)[] = [];
  await using place = await dashboardPlace({ respond: (response) => held.push(() => response.end('done')) });
  const { admin, path, berth, directory } = place;
  const tries = [1, 2, 3, 4].map(() => berth.send('POST', `/directories/${directory.id}/webhook/test`));
  await until('four are under way', () => held.length === 4);
  const fifth = admin.post(`${path}/test`);
  // Without its turn it would be there by then.
  await wait(500);
  assert.equal(held.length, 4);
  held[0]?.();
  await until('the fifth is under way', () => held.length === 5);
  for (const answer of held) answer();
  assert.match(textOf((await fifth).text), /Accepted/);
  await Promise.all(tries);
});

test('the secret on the page is the one that signs: the account’s, where its URL is used', async () => {
  await using place = await dashboardPlace();
  const { admin, member, path, directory, berth } = place;
  await place.setUrl(null);
  await berth.send('PUT', '/webhook', { json: { url: berth.receiver.url } });
  const shared = dataOf<{ secret: string }>(await berth.send('GET', '/webhook')).secret;
  await member.post(`${path}/secret/show`);
  const shown = await member.get(path);
  assert.deepEqual(secretsIn(shown.text), [shared]);
  assert.match(textOf(shown.text), /The account’s secret signs them\..*Replace it on the Account page/s);
  const [seen] = (await place.audit()).toReversed();
  assert.deepEqual([seen?.action, seen?.changes], ['show-secret', '{}']);

  await admin.post(`${path}/test`);
  const { body, headers } = await berth.receiver.next();
  assert.ok(new Webhook(shared).verify(body, headers as Record<string, string>));
  await place.setUrl(berth.receiver.url);
  assert.deepEqual(secretsIn((await admin.submit(`${path}/secret/show`)).text), [directory.secret]);
});

test('a test is listed with its answer and a mark; it is not sent again, and does not count as failed', async () => {
  let status = 500;
  await using place = await dashboardPlace({ respond: (response) => response.writeHead(status).end('no <room>') });
  const { member, path, berth } = place;
  assert.match(textOf((await member.get(path)).text), /Webhook not tried yet.*Tests and deliveries appear here\./s);
  await member.post(`${path}/test`);
  const page = await member.get(path);
  assert.match(textOf(page.text), /Webhook test failed.*failedtest500/s);
  assert.match(page.text, />failed<\/span><span class="badge quiet">test</);
  assert.doesNotMatch(textOf(page.text), /Webhook failing/);
  const [, id = ''] = /deliveries\/([\w-]{36})"/.exec(page.text) ?? [];
  const one = await member.get(`${path}/deliveries/${id}`);
  assert.match(textOf(one.text), /:\d\d0 s500(\d\.\d ms|\d+ ms|\d\.\d s)Showno <room>/);
  assert.match(one.text, /Send another test/);
  assert.doesNotMatch(one.text, />Send again</);

  assert.equal((await member.post(`${path}/deliveries/${id}/replay`)).status, 404);
  assert.doesNotMatch((await member.get('/dashboard/deliveries')).text, /not delivered/);
  const list = (await member.get('/dashboard/deliveries')).text;
  assert.doesNotMatch(list, /Send 1 again/);
  assert.match(textOf(list), /Needs attention 0On the way 0Delivered 0All/);
  assert.deepEqual(dataOf(await berth.send('GET', `/directories/${place.directory.id}/deliveries`)), []);
  const since = '2020-01-01T00:00:00Z';
  const again = await berth.send('POST', `/directories/${place.directory.id}/deliveries/replay`, { json: { since } });
  assert.deepEqual(dataOf(again), { count: 0 });

  status = 200;
  await member.post(`${path}/test`);
  assert.match(textOf((await member.get(path)).text), /Webhook works.*deliveredtest200/s);

  const moved = await member.submit(path, { webhook_url: `${berth.receiver.url}elsewhere`, _was_webhook_url: '' });
  assert.match(textOf(moved.text), /Webhook not tried yet/);
  assert.doesNotMatch(textOf(moved.text), /Webhook works/, 'that was the previous URL');
  assert.match(textOf((await member.get('/dashboard')).text), /Set a webhook and receive a delivery Done/);
});

test('the status line knows the last answer behind a queue, and that the receiver has stopped answering', async () => {
  await using place = await dashboardPlace();
  const { member, path } = place;
  const pending = { state: 'running', finished_at: null, due_at: 9e15 } as const;
  await place.addDelivery({ state: 'delivered' }, [{ status: 200, finished_at: systemClock().now() }]);
  const oldest = await place.addDelivery(pending);
  for (let count = 0; count < 25; count += 1) await place.addDelivery(pending);
  assert.match(textOf((await member.get(path)).text), /Webhook works/);
  const started_at = systemClock().now();
  await place.database.db
    .insertInto('attempts')
    .values({ delivery_id: oldest, number: 1, started_at, finished_at: started_at, status: null, error: 'timeout' })
    .execute();
  assert.match(textOf((await member.get(path)).text), /Webhook fails, berth tries again/);
});

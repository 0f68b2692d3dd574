/** The list of a webhook's deliveries, and a single one: what they show, replays, and hostile text in them. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'node:test';
import type { DeliveryRow } from '../../src/foundation/db/schema.ts';
import { sql } from 'kysely';
import { unescaped } from '../support/directory-page.ts';
import { until } from '../support/poll.ts';
import type { Received } from '../support/receiver.ts';
import {
  countDeliveries,
  deliveriesPage,
  listDeliveries,
  type ShownState,
  wholeDelivery,
} from '../../src/deliveries/webhooks/delivery-list.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { type DashboardPlace, dashboardPlaces, preformatted, textOf } from './webhook-place.ts';

const dashboardPlace = dashboardPlaces();

const LIST = '/dashboard/deliveries';
const UNKNOWN = '7f0c2f3e-9a1b-4c5d-8e6f-001122334455';
const PAGE_BYTES = 60 * 1024;
/** Deliveries of another state, among which one is sought; `DELIVERIES=1000000` before the command looks among more. */
const MANY = Number(process.env['DELIVERIES'] ?? 100_000);

/** The ids of the deliveries that a page lists, in order. */
const listed = (html: string): string[] =>
  [...html.matchAll(/\/webhook\/deliveries\/([\w-]{36})"/g)].map(([, id = '']) => id);

async function upload({ berth, directory }: DashboardPlace, name: string, text: string): Promise<void> {
  await using connection = await berth.connect(directory);
  const sftp = await connection.sftp();
  await promisify(sftp.writeFile.bind(sftp) as (path: string, data: string, done: () => void) => void)(name, text);
}

const setState = (place: DashboardPlace, id: string, state: DeliveryRow['state']) =>
  place.database.db.updateTable('deliveries').set({ state }).where('id', '=', id).execute();

test('a delivery is inspected to the byte, and replayed', async () => {
  const all: Received[] = [];
  await using place = await dashboardPlace({
    respond: (response, request) => {
      all.push(request);
      response.writeHead(202, { 'content-type': 'text/html' }).end('<b>queued</b>');
    },
  });
  const { member, path, berth } = place;
  await upload(place, '/files/orders "1".csv', 'id,total\n');
  const { body, headers } = await berth.receiver.next();
  const id = String(headers['webhook-id']);
  await until('its answer is known', async () => (await member.get(path)).text.includes('delivered'));
  assert.deepEqual(listed((await member.get(path)).text), [id]);

  const page = await member.get(`${path}/deliveries/${id}`);
  const [excerpt, shownBody, known, signature] = preformatted(page.text);
  assert.equal(excerpt, '<b>queued</b>');
  assert.equal(shownBody, body.toString());
  assert.equal(known, `content-type: ${headers['content-type']}\nwebhook-id: ${id}`);
  assert.equal(signature, `x-service-signature: ${String(headers['x-service-signature'])}`);
  assert.match(
    textOf(page.text),
    /orders "1"\.csv.*1\d{4}-\d\d-\d\d \d\d:\d\d:\d\d0 s202\d+(\.\d)? msShow<b>queued<\/b>/s,
  );
  const raw = await member.get(`${path}/deliveries/${id}/body`);
  assert.equal(raw.text, body.toString());
  assert.match(String(raw.headers['content-disposition']), /^attachment; filename="[\w-]{36}\.json"$/);

  const replayed = await member.post(`${path}/deliveries/${id}/replay`);
  const again = await berth.receiver.next();
  assert.equal(replayed.headers.location, `${path}/deliveries/${String(again.headers['webhook-id'])}?done=replayed`);
  assert.deepEqual(again.body, body);
  assert.match(
    (await member.get(replayed.headers.location ?? '')).text,
    /This is the new delivery, with the same body/,
  );
  assert.match(
    (await member.get(`${path}/deliveries/${id}`)).text,
    new RegExp(`href="[^"]*${String(again.headers['webhook-id'])}">as a new delivery`),
  );

  const announced = await member.post(`${path}/deliveries/${id}/announce`);
  const received = await berth.receiver.next();
  assert.equal(
    announced.headers.location,
    `${path}/deliveries/${String(received.headers['webhook-id'])}?done=announced`,
  );
  const by = `user:${member.email}`;
  assert.deepEqual(
    (await place.audit()).map(({ action, key_id }) => [action, key_id]),
    [
      ['replay', by],
      ['announce', by],
    ],
  );

  const [, command = ''] = /data-copy="(curl [^"]*)"/.exec(page.text) ?? [];
  await promisify(execFile)('sh', ['-c', unescaped(command)]);
  const copied = all.at(-1);
  assert.equal(all.length, 4);
  assert.ok(copied?.body.equals(body), 'the copied command sends the same');
  for (const name of ['content-type', 'webhook-id', 'x-service-signature'])
    assert.equal(copied?.headers[name], headers[name]);
});

test("the signature of a delivery is the account's when its directory has no URL", async () => {
  await using place = await dashboardPlace();
  const { admin, path, berth } = place;
  await place.setUrl(null);
  const saved = await admin.submit('/dashboard/account/webhook', { url: berth.receiver.url });
  assert.match(saved.text, /The webhook is saved\./);
  const wrong = await admin.post('/dashboard/account/webhook', { url: 'ftp://example.com' });
  assert.equal(wrong.status, 422);
  assert.match(wrong.text, /Start the URL with https:\/\/ or http:\/\/\./);
  await upload(place, '/files/a.csv', 'id,total\n');
  const { headers } = await berth.receiver.next();
  const page = await admin.get(`${path}/deliveries/${String(headers['webhook-id'])}`);
  assert.equal(preformatted(page.text).at(-1), `x-service-signature: ${String(headers['x-service-signature'])}`);
});

test('all that failed is sent again, or what was made since a time, each once; then nothing needs attention', async () => {
  await using place = await dashboardPlace();
  const { admin, directory, berth } = place;
  const at = Date.parse('2026-11-01T12:00:00Z') * 1000;
  const old = await place.addDelivery({ filename: 'old', inserted_at: at, finished_at: at });
  const recent = await place.addDelivery({ filename: 'recent', inserted_at: at + 90e6, finished_at: at + 90e6 });
  const filter = { state: 'failed', directory: directory.id };
  const done = await admin.submit(LIST, { ...filter, since: '2026-11-01T12:01' });
  assert.match(done.text, /Sending 1 failed delivery again, oldest first\./);
  const filename = async (): Promise<unknown> =>
    (JSON.parse((await berth.receiver.next()).body.toString()) as { filename: unknown }).filename;
  assert.equal(await filename(), 'recent');
  await admin.post(LIST, filter);
  assert.equal(await filename(), 'old');
  await admin.post(LIST, filter);
  const resent = await place.database.reads
    .selectFrom('deliveries')
    .select(['id', 'replayed_as'])
    .where('id', 'in', [old, recent])
    .execute();
  assert.ok(resent.every(({ replayed_as }) => replayed_as !== null));
  assert.equal(berth.receiver.requests.length, 2);
  assert.doesNotMatch((await admin.get(LIST)).text, /Send \d+ again/);
});

test('the page says why a delivery cannot be sent again', async () => {
  await using place = await dashboardPlace();
  const { admin, path } = place;
  const failed = await place.addDelivery();
  await setState(place, await place.addDelivery({ replay_at: 1 }), 'failed');
  assert.match(textOf((await admin.get(LIST)).text), /Needs attention 1.*1 file not delivered\..*Send 1 again/s);
  const pending = await place.addDelivery({ state: 'running', finished_at: null, due_at: 9e15 });
  const page = await admin.get(`${path}/deliveries/${pending}`);
  assert.doesNotMatch(page.text, />Send again</);
  assert.match(page.text, /No attempts yet/);
  const early = await admin.post(`${path}/deliveries/${pending}/replay`);
  assert.equal(early.status, 422);
  assert.match(early.text, /This delivery is still pending/);
  await place.setUrl(null);
  const one = await admin.post(`${path}/deliveries/${failed}/replay`);
  assert.deepEqual([one.status, /There is nowhere to send it\. Save a webhook URL first/.test(one.text)], [422, true]);
  const all = await admin.post(LIST);
  assert.deepEqual([all.status, /Their directories have no webhook URL\. Set one first/.test(all.text)], [422, true]);
  // It would not fit into the address of the answer.
  const long = await admin.post(LIST, { file: 'x'.repeat(60_000) });
  assert.deepEqual([long.status, /Use at most 1,000 characters\./.test(long.text)], [422, true]);
});

test('the list is narrowed by state, and its pages have each delivery once, newest first', async () => {
  await using place = await dashboardPlace();
  const { member, path, directory } = place;
  const list = `${LIST}?directory=${directory.id}`;
  assert.equal((await member.get(`${path}/deliveries`)).headers.location, list, 'the address that it had');
  assert.match(textOf((await member.get(list)).text), /No deliveries match these filters/);
  const model: { id: string; state: string; at: number }[] = [];
  for (let i = 0; i < 80; i += 1) {
    // Some at the same moment: their ids decide.
    const at = 1_700_000_000_000_000 + Math.floor(i / 3);
    const [state, shown] = i % 2 === 0 ? (['failed', 'failed'] as const) : (['delivered', 'delivered'] as const);
    model.push({ id: await place.addDelivery({ inserted_at: at, state }), state: shown, at });
  }
  model.sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
  for (const state of [undefined, 'failed', 'delivered', 'pending']) {
    const seen: string[] = [];
    const first = `${list}${state === undefined ? '' : `&state=${state}`}`;
    for (let next: string | undefined = first; next !== undefined;) {
      const { text, status } = await member.get(next);
      assert.equal(status, 200);
      const page = listed(text);
      assert.ok(page.length <= 50);
      seen.push(...page);
      next = /href="([^"]*)">Next</.exec(text)?.[1]?.replaceAll('&amp;', '&');
    }
    const wanted = model.filter((row) => state === undefined || row.state === state);
    assert.deepEqual(
      seen,
      wanted.map(({ id }) => id),
    );
  }
  for (const query of ['&state=queued', `&after=${UNKNOWN}`]) {
    const { status, text } = await member.get(`${list}${query}`);
    assert.deepEqual([status, listed(text).length], [200, 50], query);
  }
});

test('another account finds none, and no directory shows another’s files', async () => {
  await using place = await dashboardPlace();
  const { admin, stranger, path, directory, berth } = place;
  const id = await place.addDelivery();
  const other = path.replace(directory.id, (await berth.directory()).id);
  for (const [visitor, of, delivery] of [
    [stranger, path, id],
    [admin, other, id],
    [admin, path, UNKNOWN],
  ] as const) {
    for (const page of ['', '/body']) {
      assert.equal((await visitor.get(`${of}/deliveries/${delivery}${page}`)).status, 404);
    }
    for (const form of ['replay', 'announce']) {
      assert.equal((await visitor.post(`${of}/deliveries/${delivery}/${form}`)).status, 404);
    }
  }
  assert.equal((await stranger.get(`${path}/deliveries`)).status, 404);
  assert.deepEqual(listed((await stranger.get(`${LIST}?directory=${directory.id}`)).text), []);
  await stranger.post(LIST, { state: 'failed', directory: directory.id });
  assert.equal((await admin.post(`${path}/deliveries/${id}/announce`)).status, 404, 'its file is not known');
  assert.equal(berth.receiver.requests.length, 0);
});

test('names, errors and answers are text however they are made, and a page of them stays small', async () => {
  await using place = await dashboardPlace();
  const { admin, path } = place;
  // Such names are 4096 bytes long at most, and answers are kept to 1 KiB.
  const names = ['<script>alert(1)</script>', 'a\u202Egpj.exe', 'x\u0000\u001B'.repeat(400), '\u200Ba'.repeat(1000)];
  const error = 'certificate of "><script>\u202E\u0007'.repeat(20).slice(0, 500);
  const responses = [
    Buffer.from('</pre><script>alert(1)</script>\u2066'),
    Buffer.alloc(1024),
    Buffer.from('\n'.repeat(1024)),
    Buffer.from('\u200Ba'.repeat(256)),
  ];
  const attempts = responses.map((response) => ({ status: 500, response }));
  const ids: string[] = [];
  for (let i = 0; i < 26; i += 1) {
    ids.push(await place.addDelivery({ filename: names[i % 4] ?? '' }, i % 2 ? attempts : [{ error }]));
  }
  const pages = [await admin.get(LIST), await admin.get(path)];
  for (const id of ids.slice(0, 4)) pages.push(await admin.get(`${path}/deliveries/${id}`));
  for (const { status, text } of pages) {
    assert.equal(status, 200);
    // A copy button has the very bytes, in an attribute.
    const seen = text.replaceAll(/data-copy="[^"]*"/g, '');
    assert.doesNotMatch(seen, /<script>|[\u202E\u0000\u001B\u200B\u2066\u0007]/);
    assert.ok(Buffer.byteLength(text) <= PAGE_BYTES, `${Buffer.byteLength(text)} bytes`);
  }
  assert.match(pages[0]?.text ?? '', /&lt;script&gt;alert\(1\)&lt;\/script&gt;/);
  assert.match(pages[0]?.text ?? '', /a<span class="hidden-character">U\+202E<\/span>gpj\.exe/);
});

test('a page is read by an index, whatever is asked for', sqliteOnly, async () => {
  await using place = await dashboardPlace();
  const { reads } = place.database;
  const { id } = place.directory;
  for (const state of ['delivered', 'failed', 'running'] as const)
    await place.addDelivery({ state }, [{ status: 500 }]);
  const after = await place.addDelivery({}, [{ status: 500 }]);
  const owner = { accountId: place.berth.accountId, directoryId: id };
  const filter = { owner };
  const place0 = { after: { at: Number.MAX_SAFE_INTEGER, id: after }, limit: 50 };
  const pages: readonly [string, (db: typeof reads) => Promise<unknown>][] = [
    ['deliveries_by_directory', (db) => deliveriesPage(db, filter, place0)],
    ['deliveries_delivered_of', (db) => deliveriesPage(db, { ...filter, state: 'delivered' }, place0)],
    ['deliveries_failed_of', (db) => deliveriesPage(db, { ...filter, state: 'failed', isOpen: true }, place0)],
    ['deliveries_open_of', (db) => deliveriesPage(db, { ...filter, state: 'pending' }, place0)],
  ];
  const plans: string[][] = [];
  for (const [index, read] of pages) {
    const found = await plansOf(reads, read);
    assert.match(found.flat().join('\n'), new RegExp(`SEARCH deliveries USING (?:COVERING )?INDEX ${index} `));
    plans.push(...found);
  }
  for (const each of [filter, { owner: { accountId: owner.accountId } }]) {
    const counting = await plansOf(reads, (db) => countDeliveries(db, { ...each, state: 'failed', isOpen: true }));
    assert.match(counting.flat().join('\n'), /SEARCH deliveries USING COVERING INDEX deliveries_failed_of/);
  }
  plans.push(...(await plansOf(reads, (db) => wholeDelivery(db, id, after))));
  assert.ok(plans.length > 12);
  for (const line of plans.flat()) assert.doesNotMatch(line, /^SCAN (?:deliveries|attempts)/, line);
});

test('one of a rare state is found at once among very many, on the page and by the API', async () => {
  await using place = await dashboardPlace();
  const { database, directory, admin } = place;
  const rare = {
    delivered: await place.addDelivery({ state: 'delivered', inserted_at: 1 }),
    pending: await place.addDelivery({ state: 'waiting', inserted_at: 2, due_at: 9e15 }),
  };
  await database.db.transaction().execute((tx) =>
    sql`
      insert into deliveries (id, directory_id, account_id, url, destination, body, state, inserted_at)
      with recursive n(i) as (select 3 union all select i + 1 from n where i < ${MANY})
      select 'other-' || i, ${directory.id}, account_id, url, destination, body, 'failed', i
      from n join deliveries on id = ${rare.delivered}`.execute(tx),
  );
  for (const [state, id] of Object.entries(rare)) {
    const { text } = await admin.get(`${LIST}?directory=${directory.id}&state=${state}`);
    assert.deepEqual(listed(text), [id]);
    assert.doesNotMatch(text, />Next</);
    const before = process.cpuUsage();
    const found = await listDeliveries(database.reads, directory.id, { state: state as ShownState, limit: 100 });
    const { user, system } = process.cpuUsage(before);
    assert.deepEqual(
      found.map((each) => each.id),
      [id],
    );
    assert.ok(user + system < 20_000, `${state}: ${user + system} us`);
  }
});

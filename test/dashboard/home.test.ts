/** Home: what needs attention, what came in by day, what is stored, and what to do when there is nothing yet. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { storedIn } from '../../src/rules/directories/view.ts';
import { storageByDay, uploadsByDay } from '../../src/rules/history/daily-totals.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { noteStorage } from '../../src/rules/history/daily-totals.ts';
import { insertTransfers, type Transfer } from '../../src/rules/history/transfers.ts';
import { signedIn } from '../support/dashboard.ts';
import { hosted } from '../support/hosted.ts';
import { movedClock } from '../support/moved-clock.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const NAME = '<img src=x onerror=alert(1)>\u202Egnp';
const SHOWN = '&lt;img src=x onerror=alert(1)&gt;<span class="hidden-character">U+202E</span>gnp';

test('a new user sees the first steps, and later what arrived', async () => {
  await using berth = await shared();
  const place = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  using user = await signedIn(place, berth.accountId, 'member');
  const page = async (): Promise<string> => (await user.get('/dashboard')).text;
  const empty = await page();
  assert.match(
    empty,
    /First steps.*Your uploads and storage appear here once files arrive\..*Create a directory<\/a> <p.*Log in and upload.*Set a webhook/s,
  );
  assert.doesNotMatch(empty, /class="chart"/);
  const directory = await berth.directory();
  assert.match(
    await page(),
    /Create a directory <span class="badge good">Done.*Log in and upload a file<\/a> <p.*Create an API key <span class="badge good">Done/s,
  );
  writeFileSync(`${berth.place.dir}/two`, Buffer.alloc(2048));
  writeFileSync(`${berth.place.dir}/one`, Buffer.alloc(1024));
  const { code, output } = await sftp(berth.place.dir, directory.login, ['put two', 'put one']);
  assert.equal(code, 0, output);
  const today = new Date().toISOString().slice(0, 10);
  await until('both are counted', async () => (await page()).includes(`<title>${today}: 2</title>`));
  await until('the first steps are done', async () => !(await page()).includes('First steps'));
  const text = await page();
  assert.match(text, figure('files', '2'));
  assert.match(text, figure('received', '3.0 KiB'));
  assert.match(text, figure('stored', '3.0 KiB'));
  assert.match(text, /<dt><a href="\/dashboard\/directories">directory<\/a><\/dt><dd class="figure">1<\/dd>/);
  assert.match(text, /Last files.*>one<.*>two</s);
  assert.match(text, /All webhooks work\./);
});

const figure = (name: string, value: string, note = ''): RegExp =>
  new RegExp(
    `<dt>(?:<a [^>]*>)?${name}(?:</a>)?</dt><dd class="figure">${RegExp.escape(value)}</dd>${RegExp.escape(note)}`,
  );

test('failing webhooks are named safely, and other accounts see nothing of them', async () => {
  await using berth = await shared();
  const place = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  const database = await openDatabase(berth.config.database);
  const other = await createAccount({ database, clock: systemClock() }, { name: 'Other', plan: 'pro' });
  const directory = await berth.directory({ name: NAME });
  const about = { directory_id: directory.id, account_id: berth.accountId, url: '', destination: '' };
  const delivery = { ...about, id: randomUUID(), body: Buffer.from('{}'), state: 'failed', attempts: 4 } as const;
  await database.db
    .insertInto('deliveries')
    .values({ ...delivery, inserted_at: systemClock().now() })
    .execute();
  await database.db.transaction().execute((tx) => insertTransfers(tx, [upload(berth.accountId, systemClock().now())]));
  await database.close();
  using user = await signedIn(place, berth.accountId);
  const { text } = await user.get('/dashboard');
  assert.ok(
    new RegExp(
      `href="/dashboard/directories/${directory.id}/webhook"[^>]*><bdi>${RegExp.escape(SHOWN)}</bdi></a>`,
    ).test(text),
    text,
  );
  assert.match(text, /1 file not delivered.*href="\/dashboard\/deliveries\?directory=[^"]*state=failed">.*See why/s);
  assert.match(text, /action="\/dashboard\/deliveries\/send-again"/);
  using stranger = await signedIn(place, other.id);
  const theirs = (await stranger.get('/dashboard')).text;
  assert.match(theirs, /First steps/);
  assert.ok(!theirs.includes(directory.id));
});

function upload(account: string, at: number, bytes = 10): Transfer {
  return { at, event: 'uploaded', directory_id: 'd', account_id: account, username: 'u', path: 'f', bytes };
}

test('days are counted as they are recorded, whole days in UTC, and found by their key', sqliteOnly, async () => {
  using files = scratch();
  const database = await openDatabase(`${files.dir}/days.db`);
  const { db, reads } = database;
  const now = 20_000 * DAY + 5;
  const rows = [
    upload('a', now),
    upload('a', now - 5, 7),
    upload('a', now - 6),
    upload('b', now),
    { ...upload('a', now), event: 'downloaded' as const },
    upload('a', now - 2 * DAY, 1),
    upload('a', now - 3 * DAY),
    { ...upload('a', now - DAY), bytes: null },
  ];
  await db.transaction().execute((tx) => insertTransfers(tx, rows.slice(0, 4)));
  // Each node writes them in the same order, so that two nodes do not deadlock.
  const written = await sql<{ owner_id: string }>`select owner_id from daily_totals order by rowid`.execute(db);
  assert.deepEqual(
    written.rows.map(({ owner_id }) => owner_id),
    ['a', 'a', 'b'],
  );
  await db.transaction().execute((tx) => insertTransfers(tx, rows.slice(4)));
  const today = 20_000 * DAY;
  assert.deepEqual(await uploadsByDay(reads, 'a', { now, days: 3 }), [
    { day: today - 2 * DAY, uploads: 1, bytes: 1 },
    { day: today - DAY, uploads: 2, bytes: 10 },
    { day: today, uploads: 2, bytes: 17 },
  ]);
  assert.deepEqual(await uploadsByDay(reads, 'c', { now, days: 1 }), [{ day: today, uploads: 0, bytes: 0 }]);
  const plans = await plansOf(reads, async (watched) => {
    await uploadsByDay(watched, 'a', { now, days: 30 });
    await storedIn(watched, 'a');
  });
  assert.match(
    plans[0]?.join() ?? '',
    /^SEARCH daily_totals USING INDEX \S+ \(owner_id=\? AND kind=\? AND day>\? AND day<\?\)$/,
  );
  assert.match(plans[1]?.join() ?? '', /^SEARCH directories USING (?:COVERING )?INDEX \S+ \(account_id=\?\)$/);
  await database.close();
});

test('figures have a trend; what is not known is said', async () => {
  await using berth = await shared();
  const place = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  const database = await openDatabase(berth.config.database);
  const other = await createAccount({ database, clock: systemClock() }, { name: 'Other', plan: 'pro' });
  const now = systemClock().now();
  const day = (ago: number): number => now - (now % DAY) - ago * DAY;
  const directory = await berth.directory();
  await database.db.updateTable('directories').set({ storage_bytes: 5120 }).where('id', '=', directory.id).execute();
  for (const [owner_id, factor] of [
    [berth.accountId, 1],
    [other.id, 100],
  ] as const) {
    const stored = { owner_id, kind: 'storage', count: 0 } as const;
    const refused = { owner_id, kind: 'refusals', bytes: 0 } as const;
    const uploads = { owner_id, kind: 'uploads' } as const;
    await database.db
      .insertInto('daily_totals')
      .values([
        { ...stored, day: day(7), bytes: 4096 * factor },
        { ...stored, day: day(40), bytes: 1 },
        { ...refused, day: day(0), count: 7 * factor },
        { ...refused, day: day(2), count: 5 * factor },
        { ...refused, day: day(40), count: 1 },
        { ...uploads, day: day(1), count: 26 * factor, bytes: 1024 },
        { ...uploads, day: day(31), count: 25 * factor, bytes: 2048 },
        { ...uploads, day: day(61), count: 1000, bytes: 1 },
      ])
      .execute();
  }
  using user = await signedIn(place, berth.accountId);
  const page = async (): Promise<string> => (await user.get('/dashboard')).text;
  const without = await page();
  assert.match(without, figure('failed logins', '–'));
  assert.match(without, /Not known yet: berth hasn’t found sshd’s log\./);
  assert.match(without, figure('files', '26', '<dd class="quiet">+4 %</dd>'));
  assert.match(without, figure('received', '1.0 KiB', '<dd class="quiet">−50 %</dd>'));
  assert.match(without, figure('stored', '5.0 KiB', '<dd class="quiet">+25 % in 7 days</dd>'));

  const readUntil = (at: number) =>
    database.db
      .insertInto('login_log')
      .values({ node: '', read_until: at })
      .onConflict((conflict) => conflict.column('node').doUpdateSet({ read_until: at }))
      .execute();
  await readUntil(now - 60_000_000);
  const text = await page();
  assert.match(text, figure('failed logins', '12'));
  assert.doesNotMatch(text, /was last read/);
  assert.match(text, /All webhooks and logins work\./);
  assert.ok(Buffer.byteLength(text) <= 60_000, `${Buffer.byteLength(text)} bytes`);
  await readUntil(now - DAY);
  const unread = await page();
  assert.match(unread, /sshd’s log was last read/);
  assert.doesNotMatch(unread, /logins work/);
  await database.close();
});

test('directories where nobody can log in, or where the last login failed, need attention while the cause holds', async () => {
  await using berth = await shared();
  const place = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  const now = systemClock().now();
  const keyless = await berth.directory({ name: 'Keyless' });
  const failing = await berth.directory({ name: 'Failing' });
  const repaired = await berth.directory({ name: 'Repaired' });
  const allowed = await berth.directory({ name: 'Allowed' });
  const database = await openDatabase(berth.config.database);
  await database.db.updateTable('directories').set({ auth_mode: 'public_key' }).where('id', '=', keyless.id).execute();
  const [account_id, address] = [berth.accountId, '203.0.113.7'];
  const wrong = { account_id, address, kind: 'refused', text: 'wrong password' } as const;
  await database.db
    .insertInto('logins')
    .values([
      { ...wrong, directory_id: failing.id, at: now - 4, kind: 'login', text: 'by password' },
      { ...wrong, directory_id: failing.id, at: now - 3 },
      { ...wrong, directory_id: failing.id, at: now - 2 },
      { ...wrong, directory_id: repaired.id, at: now - 2 },
      { ...wrong, directory_id: repaired.id, at: now - 1, kind: 'login', text: 'by password' },
      { ...wrong, directory_id: allowed.id, at: now - 1, text: 'right password, but not from an allowed network' },
    ])
    .execute();
  await database.db.transaction().execute((tx) => insertTransfers(tx, [upload(account_id, now)]));
  using user = await signedIn(place, account_id);
  const shown = (await user.get('/dashboard')).text;
  const list = /<ul class="problems">.*?<\/ul>/s.exec(shown)?.[0] ?? '';
  assert.match(list, />Keyless<.*Nobody can log in: no public key.*href="[^"]*\/access#public_key"/s);
  assert.match(list, />Failing<.*2 logins failed from 203\.0\.113\.7.*wrong password/s);
  assert.doesNotMatch(list, /Repaired|Allowed/);
  await database.db
    .updateTable('directories')
    .set({ allowed_networks: '["198.51.100.0/24"]' })
    .where('id', '=', allowed.id)
    .execute();
  await database.close();
  assert.match(
    (await user.get('/dashboard')).text,
    />Allowed<.*A login failed from 203\.0\.113\.7.*not from an allowed network/s,
  );
});

test('the storage of the day is noted by one pass over an index', sqliteOnly, async () => {
  using files = scratch();
  await using api = await hosted(files);
  const { db, reads } = api.database;
  const { accountId } = api.tenant;
  const clock = movedClock();
  const { id } = await api.directory();
  await api.directory();
  await db.updateTable('directories').set({ storage_bytes: 100 }).execute();
  await noteStorage({ database: api.database, clock });
  await db.updateTable('directories').set({ storage_bytes: 40 }).where('id', '=', id).execute();
  const look = () => storageByDay(reads, accountId, { now: clock.now(), days: 3 });
  assert.deepEqual(await look(), [undefined, undefined, 200]);
  const [plan] = await plansOf(db, (watched) => noteStorage({ database: { db: watched }, clock }));
  assert.match(plan?.join('\n') ?? '', /SCAN directories USING COVERING INDEX directories_listed_by_storage/);
  assert.doesNotMatch(plan?.join('\n') ?? '', /TEMP B-TREE/);
  assert.deepEqual(await look(), [undefined, undefined, 140]);
  clock.offset = DAY;
  await noteStorage({ database: api.database, clock });
  assert.deepEqual(await look(), [undefined, 140, 140]);
});

/** The page of all directories: what it shows of each, how it is searched and ordered, and making one. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Plan } from '../../src/foundation/db/schema.ts';
import type { TestBerth } from '../support/berth.ts';
import { type PageAnswer, signedIn } from '../support/dashboard.ts';
import {
  audited,
  dashboardOf,
  done,
  opens,
  passwordIn,
  pathOf,
  problemIn,
  unescaped,
} from '../support/directory-page.ts';
import { directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { dataOf } from '../support/field-sets.ts';
import { until } from '../support/poll.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const LIST = '/dashboard/directories';

/** The cells of each row, as text. */
function rowsIn({ text }: PageAnswer): string[][] {
  const body = /<tbody>(.*?)<\/tbody>/s.exec(text)?.[1] ?? '';
  return [...body.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) => unescaped(cell.replaceAll(/<[^>]*>/g, ''))),
  );
}

const namesIn = (page: PageAnswer): string[] => rowsIn(page).map(([name = '']) => name);

/** Where a link with that text leads. */
function linkIn({ text }: PageAnswer, name: string): string | undefined {
  const href = new RegExp(`<a[^>]* href="([^"]*)"[^>]*>${name}</a>`).exec(text)?.[1];
  return href === undefined ? undefined : unescaped(href);
}

async function account(berth: TestBerth, plan: Plan): Promise<string> {
  const database = await openDatabase(berth.config.database);
  const id = randomUUID();
  await database.db.insertInto('accounts').values({ id, name: plan, plan, inserted_at: 1 }).execute();
  await database.close();
  return id;
}

test('the first directory: made by a member, its password shown once, and it logs in', async () => {
  await using berth = await shared();
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const empty = await member.get(LIST);
  assert.match(empty.text, /No directories yet.*href="\/dashboard\/directories\/new">Create the first one/s);
  assert.doesNotMatch(empty.text, /<table|name="sort"/);

  const fields = { description: 'a\r\nb', external_id: 'order-7', retention_days: '30', max_connections: '2' };
  const answer = await member.post(LIST, { name: 'Acme <script>\u202e😀', ...fields });
  assert.equal(answer.status, 303);
  const address = answer.headers.location ?? '';
  const page = await member.get(address);
  const password = passwordIn(page) ?? '';
  assert.match(page.text, /<h1>Acme &lt;script&gt;U\+202E😀<\/h1>/);
  assert.match(page.text, /Created\..*Copy the password now/);
  assert.equal(passwordIn(await member.get(address)), undefined, 'shown once');

  const [made] = dataOf<Record<string, string>[]>(await berth.send('GET', '/directories'));
  const username = made?.['sftp_username'] ?? '';
  const id = made?.['id'] ?? '';
  assert.ok(page.text.includes(`>sftp -P ${berth.config.sftp.port} ${username}@127.0.0.1<`));
  assert.equal(await opens(berth.place, berth, username, password), true);
  const shown = dataOf(await berth.send('GET', `/directories/${id}`));
  const { name, description, external_id, retention_days, max_connections } = shown;
  assert.deepEqual(
    [name, description, external_id, retention_days, max_connections],
    ['Acme <script>\u202e😀', 'a\nb', 'order-7', 30, 2],
  );
  assert.match(
    (await audited(berth, { id }))[0] ?? '',
    new RegExp(`^create .* by user:${member.email} through POST ${LIST}$`),
  );

  const list = await member.get(LIST);
  assert.doesNotMatch(list.text, /<script>/);
  const [first = []] = rowsIn(list);
  assert.deepEqual(
    [first[0], first[1], first[2], first[3], first[5]],
    ['Acme <script>U+202E😀', username, '0 B', 'never', ''],
  );
});

test('a wrong input is reported beside its field, and stays there', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const wrong = { name: '\t', external_id: `"><b>${'x'.repeat(255)}`, retention_days: '-1', max_connections: 'many' };
  const refused = await user.post(LIST, wrong);
  assert.equal(refused.status, 422);
  assert.deepEqual(
    ['name', 'external_id', 'retention_days', 'max_connections'].map((field) => problemIn(refused, field)),
    [
      'Enter a name.',
      'Use at most 255 characters.',
      'The number of days must be 0 or more.',
      'The number of connections must be a whole number.',
    ],
  );
  assert.match(refused.text, /<details open="">/);
  assert.match(refused.text, /value="&quot;&gt;&lt;b&gt;x/);
  for (const name of ['', 'a\0b', 'a\r\nb', 'x'.repeat(101)])
    assert.equal((await user.post(LIST, { name })).status, 422);
  assert.equal((await user.post(LIST)).status, 422);
  assert.deepEqual(dataOf(await berth.send('GET', '/directories')), []);
  // Names of every kind that may be.
  for (const name of ['"\'&<>`', '\u202eevil\u2066', '😀'.repeat(100), ' ', '\\N{NULL}%00']) {
    const made = await user.post(LIST, { name });
    assert.equal(made.status, name.trim() === '' ? 422 : 303, name);
  }
  const page = await user.get(LIST);
  assert.doesNotMatch(page.text, /[\u202e\u2066]/);
  assert.ok(namesIn(page).includes('"\'&<>`'));
});

test('Free and Starter accounts have the dashboard within their 1 and 5 directories', async () => {
  await using berth = await shared();
  for (const [plan, limit] of [
    ['free', 1],
    ['starter', 5],
  ] as const) {
    using user = await signedIn(dashboardOf(berth), await account(berth, plan));
    for (let n = 0; n < limit; n += 1) assert.equal((await user.post(LIST, { name: `${plan} ${n}` })).status, 303);
    const refused = await user.post(LIST, { name: 'One more' });
    assert.equal(refused.status, 422);
    assert.match(refused.text, /role="alert"[^>]*><p>Directory limit reached for your plan\.</);
    assert.match(refused.text, /Delete one to\s+create another/);
    assert.doesNotMatch((await user.get(LIST)).text, /Create directory</, 'forms that are refused anyway do not count');
    assert.equal(namesIn(await user.get(LIST)).length, limit);
  }
});

test('a row shows the last upload even if its file has gone, how the user logs in, and a failing webhook', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const [uploading, suspended, expired] = [
    await berth.directory({ name: 'Uploading' }),
    await berth.directory({ name: 'Suspended' }),
    await berth.directory({ name: 'Expired' }),
  ];
  await using connection = await berth.connect(uploading);
  const session = await connection.sftp();
  const put = (size: number): Promise<void> =>
    new Promise((resolve, reject) =>
      session.writeFile('a.csv', 'x'.repeat(size), (error) => (error ? reject(error) : resolve())),
    );
  await put(2048);
  await until('it is recorded', async () => (await berth.uploads(uploading)).length === 1);
  const stateOf = async (name: string) => rowsIn(await user.get(LIST)).find(([first]) => first === name);
  assert.deepEqual((await stateOf('Uploading'))?.slice(2, 4), ['2.0 KiB', 'just now']);
  session.unlink('a.csv', () => undefined);
  await until('it has gone', async () => (await berth.storage(uploading)) === 0);
  assert.match((await stateOf('Uploading'))?.slice(2, 4).join(' ') ?? '', /^0 B (?:just now|1 minute ago)$/);

  await done(user, `${pathOf(suspended)}/suspend`);
  await done(user, `${pathOf(expired)}/access/limits`, { expires_at: '2001-01-01T00:00' });
  const database = await openDatabase(berth.config.database);
  const delivery = {
    id: randomUUID(),
    directory_id: suspended.id,
    account_id: berth.accountId,
    url: 'u',
    destination: 'd',
  };
  await database.db
    .insertInto('deliveries')
    .values({ ...delivery, body: Buffer.from('{}'), state: 'failed', attempts: 4, inserted_at: 1 })
    .execute();
  await database.close();
  assert.equal((await stateOf('Suspended'))?.at(-1), 'suspendedwebhook failing');
  assert.equal((await stateOf('Expired'))?.at(-1), 'expired');
  assert.equal((await stateOf('Uploading'))?.at(-1), '');
  assert.match((await user.get(`${pathOf(suspended)}/access`)).text, /Webhook failing, started/);
});

test('headings put it into order, the search narrows it down, and the links of a page keep both', async () => {
  await using berth = await shared();
  const database = await openDatabase(berth.config.database);
  const accountId = await newAccount(database.db);
  const rows = Array.from({ length: 120 }, (_, n) =>
    directoryRow({ name: `Acme ${String(n).padStart(3, '0')}`, inserted_at: n + 1, storage_bytes: (n * 7) % 120 }),
  );
  await insertDirectories(database.db, accountId, [...rows, directoryRow({ name: '100% <other>', inserted_at: 500 })]);
  await database.close();
  using user = await signedIn(dashboardOf(berth), accountId);
  const names = rows.map(({ name }) => name);

  const newest = await user.get(LIST);
  assert.deepEqual(namesIn(newest), ['100% <other>', ...names.toReversed().slice(0, 49)]);
  assert.equal(linkIn(newest, 'Previous'), undefined);
  assert.match(
    newest.text,
    /<th scope="col" class="extra" aria-sort="descending"><a href="\/dashboard\/directories\?sort=-created">Created</,
  );

  const search = `${LIST}?q=acme`;
  const byName = linkIn(await user.get(search), 'Name') ?? '';
  assert.equal(byName, `${search}&sort=name`);
  let page = await user.get(byName);
  assert.match(page.text, /aria-sort="ascending"><a href="[^"]*">Name</);
  assert.match(page.text, /name="q"[^>]* value="acme"|value="acme"[^>]* name="q"/);
  const seen = namesIn(page);
  for (let next = linkIn(page, 'Next'); next !== undefined; next = linkIn(page, 'Next')) {
    page = await user.get(next);
    seen.push(...namesIn(page));
  }
  assert.deepEqual(seen, names);
  page = await user.get(linkIn(page, 'Previous') ?? '');
  assert.deepEqual(namesIn(page), names.slice(50, 100));
  const most = await user.get(linkIn(page, 'Storage') ?? '');
  const sizes = rows.map(({ name, storage_bytes }) => [storage_bytes, name] as const).toSorted(([a], [b]) => b - a);
  assert.deepEqual(
    namesIn(most),
    sizes.slice(0, 50).map(([, name]) => name),
  );

  const nothing = await user.get(`${LIST}?q=${encodeURIComponent('"><script>')}`);
  assert.match(nothing.text, /Nothing found.*Clear the search/s);
  assert.doesNotMatch(nothing.text, /<script>/);
  assert.equal(linkIn(nothing, 'Clear the search'), LIST);
  assert.deepEqual(namesIn(await user.get(`${LIST}?q=%25+%3Co`)), ['100% <other>']);
  const past = Buffer.from('["\uffff","x"]').toString('base64url');
  assert.match((await user.get(`${LIST}?sort=name&after=${past}`)).text, /Nothing more here/);
  for (const odd of [
    'after=x',
    'before=WzFd',
    'sort=__proto__',
    'sort=-',
    'q=%00',
    `q=${'a'.repeat(9000)}`,
    'after=W1tdLHt9XQ',
    'done=<b>',
  ])
    assert.equal((await user.get(`${LIST}?${odd}`)).status, 200, odd);
});

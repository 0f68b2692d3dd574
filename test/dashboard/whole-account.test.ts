/** What the dashboard shows of a whole account: deliveries by filter, who is connected, and exports; and what was done, once. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { DeliveryState } from '../../src/foundation/db/schema.ts';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf, unescaped } from '../support/directory-page.ts';
import { until } from '../support/poll.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const DELIVERIES = '/dashboard/deliveries';
const SECOND = 1e6;

interface Some {
  readonly of: TestDirectory;
  readonly count: number;
  readonly state: DeliveryState;
  readonly name: string;
  readonly at: number;
}

/** Deliveries a second apart, the first at `at`, as if they had been made then. */
async function addDeliveries(berth: TestBerth, { of, count, state, name, at }: Some): Promise<void> {
  const database = await openDatabase(berth.config.database);
  const url = berth.receiver.url;
  await database.db.transaction().execute(async (tx) => {
    for (let index = 0; index < count; index += 1) {
      const when = at + index * SECOND;
      const body = Buffer.from(JSON.stringify({ filename: `${name}-${index}.csv` }));
      const to = { directory_id: of.id, account_id: berth.accountId, url, destination: `${berth.accountId} ${url}` };
      await tx
        .insertInto('deliveries')
        .values({ ...to, id: randomUUID(), body, state, attempts: 4, inserted_at: when, finished_at: when })
        .execute();
    }
  });
  await database.close();
}

test('deliveries of all directories: exact counts, each filter, the failed ones by link from Home, and sending them again', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const [few, many] = [await berth.directory({ name: 'Few' }), await berth.directory({ name: 'Many' })];
  const now = systemClock().now();
  const at = now - 5000 * SECOND;
  await addDeliveries(berth, { of: few, count: 3, state: 'failed', name: 'Invoice', at });
  await addDeliveries(berth, { of: few, count: 2, state: 'delivered', name: 'order', at: at - 100 * SECOND });
  await addDeliveries(berth, { of: many, count: 140, state: 'failed', name: 'order', at: at + 1000 * SECOND });

  const home = unescaped((await user.get('/dashboard')).text);
  assert.ok(home.indexOf('>Many<') < home.indexOf('>Few<'), 'the worst first');
  assert.match(
    home,
    new RegExp(`140 files not delivered.*href="${DELIVERIES}\\?directory=${many.id}&state=failed"`, 's'),
  );

  const list = async (query: string) => unescaped((await user.get(`${DELIVERIES}?${query}`)).text);
  const namesIn = (text: string) =>
    [...text.matchAll(/\/deliveries\/[\da-f-]{36}"[^>]*><bdi>([^<]*)</g)].map(([, name]) => name);
  const all = await list('');
  assert.match(all, /145 deliveries/);
  assert.match(all, />Needs attention 143</);
  assert.match(await list(`directory=${few.id}`), /<p>5 deliveries<\/p>/);
  assert.match(await list(`directory=Few&state=failed`), /<p>3 deliveries<\/p>/);
  assert.deepEqual(namesIn(await list('file=INVOICE')), ['Invoice-2.csv', 'Invoice-1.csv', 'Invoice-0.csv']);
  const minute = new Date((at + 500 * SECOND) / 1000).toISOString().slice(0, 19);
  assert.match(await list(`until=${minute}`), /<p>5 deliveries<\/p>/);
  assert.match(await list(`since=${minute}`), /<p>140 deliveries<\/p>/);
  assert.match(await list('directory=nobody'), /No directory matches "nobody"\./);
  assert.match(await list('directory=fEw'), /<p>5 deliveries<\/p>/);

  const seen: (string | undefined)[] = [];
  for (let query: string | undefined = 'state=failed'; query !== undefined;) {
    const page: string = await list(query);
    seen.push(...namesIn(page));
    query = /href="\/dashboard\/deliveries\?([^"]*)">Next</.exec(page)?.[1];
  }
  assert.equal(seen.length, 143);

  const csv = await user.get(`${DELIVERIES}/export.csv?state=failed&directory=${few.id}`);
  assert.match(String(csv.headers['content-type']), /text\/csv/);
  const lines = csv.text.trimEnd().split('\r\n');
  assert.equal(lines.length, 4);
  assert.match(lines[1] ?? '', new RegExp(`^[\\da-f-]{36},\\d{4}-\\S+Z,${few.id},Few,Invoice-2\\.csv,failed,`));

  const done = await user.submit(DELIVERIES, { state: 'failed', directory: few.id });
  assert.match(done.text, /Sending 3 failed deliveries again, oldest first\./);
  await until('they are sent again', () => berth.receiver.requests.length === 3);
  await until('each is delivered', async () => (await list(`directory=${few.id}`)).includes('>Delivered 5<'));
  const resent = await list(`directory=${few.id}`);
  assert.equal(resent.match(/>sent again</g)?.length, 3);
  assert.match(resent, />Needs attention 0</, 'nothing needs attention any more');
  assert.doesNotMatch(resent, /Send 3 again/);
  assert.match(await list(`directory=${few.id}&state=failed`), /<p>0 deliveries<\/p>/);
  assert.equal(await user.submit(DELIVERIES, { state: 'failed', directory: few.id }).then(({ status }) => status), 200);
  assert.equal(berth.receiver.requests.length, 3, 'each is replayed once');

  using stranger = await signedIn(dashboardOf(berth), await otherAccount(berth));
  assert.doesNotMatch((await stranger.get(DELIVERIES)).text, /Invoice|order-/);
  assert.doesNotMatch((await stranger.get(`${DELIVERIES}?directory=${few.id}`)).text, /Invoice|order-/);
  assert.equal((await stranger.get(`${DELIVERIES}/export.csv?directory=${few.id}`)).text.trim().split('\n').length, 1);
});

async function otherAccount(berth: TestBerth): Promise<string> {
  const database = await openDatabase(berth.config.database);
  const id = randomUUID();
  await database.db.insertInto('accounts').values({ id, name: 'Other', plan: 'business', inserted_at: 1 }).execute();
  await database.close();
  return id;
}

test('the sessions of all directories are listed, and an admin ends one; nobody else does', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  using stranger = await signedIn(dashboardOf(berth), await otherAccount(berth));
  assert.match((await admin.get('/dashboard/activity')).text, /Nobody is connected/);
  const directory = await berth.directory({ name: 'Acme invoices' });
  await using connection = await berth.connect(directory);
  await connection.sftp();
  const { text } = await admin.get('/dashboard/activity');
  assert.match(text, /Acme invoices.*127\.0\.0\.1/s);
  const [, session = ''] = /name="session" value="([^"]+)"/.exec(text) ?? [];
  assert.doesNotMatch((await member.get('/dashboard/activity')).text, /name="session"/);
  assert.doesNotMatch((await stranger.get('/dashboard/activity')).text, /Acme invoices/);
  const end = { directory: directory.id, session };
  assert.equal((await member.post('/dashboard/activity/end-session', end)).status, 403);
  assert.equal((await stranger.post('/dashboard/activity/end-session', end)).status, 404);
  assert.match((await admin.submit('/dashboard/activity/end-session', end)).text, /The session has ended\./);
  await connection.closed;
});

test('an export is the complete list as CSV, and no cell is a formula', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory({ name: 'Acme' });
  await using connection = await berth.connect(directory);
  const session = await connection.sftp();
  for (const name of ['=cmd(1).csv', 'a "b", c.csv', 'a;=1+1', 'a;"=1+1";\t@b', '\t=1+2', '＝1+3'])
    await new Promise<void>((resolve, reject) => {
      session.writeFile(name, 'x', (error) => (error ? reject(error) : resolve()));
    });
  await until('all are recorded', async () => (await berth.uploads(directory)).length === 6);
  const path = `/dashboard/directories/${directory.id}`;
  const uploads = (await user.get(`${path}/files/export.csv`)).text;
  assert.match(uploads, /^id,path,size_bytes,uploaded_at\r\n/);
  assert.match(uploads, /,'=cmd\(1\)\.csv,1,/);
  assert.match(uploads, /,"a ""b"", c\.csv",1,/);
  assert.match(uploads, /,a;'=1\+1,1,/, 'a spreadsheet may separate cells by semicolons');
  assert.match(uploads, /,'\t'=1\+2,1,/, 'or by tabs');
  assert.match(uploads, /,'＝1\+3,1,/, 'or take signs of full width for the others');
  assert.match(uploads, /,"a;'""=1\+1"";'\t'@b",1,/);
  assert.match(
    (await user.get(`${path}/activity/export.csv`)).text,
    /^at,directory_id,username,kind,who,address,what,route,request_id,changes\r\n.*created the directory/s,
  );
  const old = await user.get('/dashboard/account/audit.csv');
  assert.equal(old.status, 303);
  const changes = (await user.get(old.headers.location ?? '')).text;
  assert.match(changes, /,change,"API key ""test""",,created the directory,POST /);
  assert.doesNotMatch(changes, /,file,/);
});

test('the search of every page finds pages, directories, files and people of the own account', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId, 'member', 'zoe-search@example.com');
  const directory = await berth.directory({ name: 'Search <Corp>' });
  await using connection = await berth.connect(directory);
  const session = await connection.sftp();
  await new Promise<void>((resolve, reject) => {
    session.writeFile('search a&b.csv', 'x', (error) => (error ? reject(error) : resolve()));
  });
  await until('it is recorded', async () => (await berth.uploads(directory)).length === 1);
  const find = async (by: typeof user, text: string) =>
    (
      JSON.parse((await by.get(`/dashboard/find/all?q=${encodeURIComponent(text)}`)).text) as Record<string, string>[]
    ).map(({ name, about, address }) => [name, about, address]);
  const path = `/dashboard/directories/${directory.id}`;
  const [first, file, person, ...others] = await find(user, 'SEARCH');
  assert.deepEqual(first, ['Search <Corp>', directory.username, path]);
  assert.deepEqual(file, ['search a&b.csv', 'file in Search <Corp>', `${path}/files?q=search+a%26b.csv`]);
  assert.deepEqual(person?.slice(0, 2), ['zoe-search@example.com', 'member']);
  assert.deepEqual(others, []);
  const listed = await user.get(file?.[2] ?? '');
  assert.match(listed.text, /<bdi>search a&amp;b\.csv<\/bdi>/);
  assert.deepEqual(await find(user, 'api k'), [['Settings: API keys', 'page', '/dashboard/api-keys']]);
  assert.deepEqual(await find(user, ' '), []);
  await using others2 = await shared();
  using stranger = await signedIn(dashboardOf(others2), others2.accountId);
  assert.deepEqual(await find(stranger, 'search'), []);
});

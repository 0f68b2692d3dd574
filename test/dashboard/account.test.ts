/** The account's page: what is used of the plan; and the changes of the account in pages. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { UNLIMITED } from '../../src/rules/accounts/actor.ts';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { directoryNamed } from '../../src/operating/reports/named.ts';
import { storedIn } from '../../src/rules/directories/view.ts';
import type { TestBerth } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';

const shared = sharedDashboard();

const ACCOUNT = '/dashboard/account';
const CHANGES = '/dashboard/activity';

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

const account = (berth: TestBerth, name: string, plan: 'free' | 'starter' | 'business') =>
  onDatabase(berth, (database) => createAccount({ database, clock: systemClock() }, { name, plan }));

test('it says what the plan has and what is used of it', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  await berth.directory();
  const directory = await berth.directory();
  await onDatabase(berth, ({ db }) =>
    db
      .updateTable('directories')
      .set({ storage_bytes: 5 * 2 ** 20 })
      .where('id', '=', directory.id)
      .execute(),
  );
  const page = await admin.get(ACCOUNT);
  assert.match(page.text, /<dt>Plan<\/dt><dd>Business<.*<dd>2 \(no limit\)<.*5\.0 MiB.*<dd>Included</s);

  const hostile = '<img src=x>\u202etxt';
  const { id } = await account(berth, hostile, 'free');
  using free = await signedIn(place(berth), id);
  const other = await free.get(ACCOUNT);
  assert.match(other.text, /<dd>0 of 1<.*<dd>Not included\. It is part of the Pro and Business plans\.</s);
  assert.ok(other.text.includes('&lt;img src=x&gt;') && !other.text.includes('<img'));
  assert.ok(other.text.includes('U+202E') && !other.text.includes('\u202e'));
});

test('the audit tells who changed what; a directory is linked while there is one, and can be asked for alone', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const [one, two] = [await berth.directory(), await berth.directory({ name: '\u202e<script>alert(1)</script>' })];
  await admin.post('/dashboard/team', { email: 'new@example.com', role: 'member' });
  await berth.send('DELETE', `/directories/${one.id}`);

  const { text } = await member.get(CHANGES);
  assert.match(text, /deleted the directory.*invited .*@.*created the directory/s);
  assert.ok(text.replaceAll(/<[^>]*>/g, '').includes(`${admin.email} invited new@example.com as member`));
  assert.ok(text.includes(`href="/dashboard/directories/${two.id}"`));
  assert.ok(!text.includes(`/dashboard/directories/${one.id}"`));
  assert.ok(new RegExp(`<td[^>]*><bdi>${one.username}</bdi></td>`).test(text));
  assert.ok(text.includes('U+202E</span>&lt;script&gt;alert(1)') && !/\u202e|<script>alert/.test(text));
  assert.doesNotMatch((await member.get(ACCOUNT)).text, /Require for everyone/, 'a member changes nothing');

  const four = await berth.directory({ name: 'Acme orders' });
  await berth.directory({ name: 'Acme invoices' });
  assert.match((await member.get(`${CHANGES}?directory=acme+orders`)).text, />Acme orders</);
  const several = (await member.get(`${CHANGES}?directory=acme`)).text;
  assert.match(several, new RegExp(`Several directories match.*directory=${four.id}"`, 's'));
  assert.match((await member.get(`${CHANGES}?directory=nobody`)).text, /No directory matches &quot;nobody&quot;\./);

  for (const name of [two.id, two.username]) {
    const alone = await member.get(`${CHANGES}?directory=${name}`);
    assert.ok(alone.text.includes(two.id) && !alone.text.includes(one.username));
    assert.doesNotMatch(alone.text, /invited/);
  }
  const deleted = await member.get(`${CHANGES}?directory=${one.id}`);
  assert.match(deleted.text, /deleted the directory.*created the directory/s);

  const { id } = await account(berth, 'Other', 'business');
  using stranger = await signedIn(place(berth), id);
  for (const name of ['', two.id, two.username, one.id, 'nothing']) {
    const theirs = await stranger.get(`${CHANGES}?directory=${name}`);
    assert.match(theirs.text, name === '' ? /Nothing found/ : /No directory matches/, name);
    assert.ok(!theirs.text.includes(`>${two.username}<`) && !theirs.text.includes(`>${one.username}<`));
  }
});

test('a long audit has pages, none of which slows down or repeats', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  const now = systemClock().now();
  const rows = Array.from({ length: 120 }, (_, i) => ({
    // Several at one moment, none so old that it would be pruned meanwhile.
    at: now + Math.floor(i / 7),
    action: 'update' as const,
    account_id: berth.accountId,
    key_id: `operator:number-${i}.`,
    request_id: 'r',
    route: 'PATCH',
    directory_id: 'd',
    username: 'u',
    changes: '{}',
  }));
  await onDatabase(berth, ({ db }) => db.insertInto('audit').values(rows).execute());
  for (const filter of ['', '&directory=d']) {
    const seen: string[] = [];
    let path: string | undefined = `${CHANGES}?topic=changes${filter}`;
    let pages = 0;
    while (path !== undefined) {
      const { text } = await admin.get(path.replaceAll('&amp;', '&'));
      seen.push(...(text.match(/number-\d+/g) ?? []));
      pages += 1;
      assert.ok(text.length < 60_000, `${text.length}`);
      path = /<a class="button" href="([^"]*before=\d[^"]*)">Next/.exec(text)?.[1];
    }
    assert.deepEqual(
      seen,
      rows.map((_, i) => `number-${119 - i}`),
    );
    assert.equal(pages, 3);
  }
  for (const before of ['x', '-1', '99999999999999999999-1', "1-1' or 1=1"])
    assert.equal((await admin.get(`${CHANGES}?before=${encodeURIComponent(before)}`)).status, 200);
});

test('every page of it is read by an index, and nothing is sorted', sqliteOnly, async () => {
  using files = scratch();
  mkdirSync(files.config.stateDir, { recursive: true });
  await onDatabase(files, async ({ reads }) => {
    const plans = await plansOf(reads, async (watched) => {
      await directoryNamed(watched, 'name', { accountId: 'account', scope: UNLIMITED });
      await storedIn(watched, 'account');
    });
    assert.equal(plans.length, 3);
    for (const lines of plans) {
      for (const line of lines) assert.doesNotMatch(line, /^SCAN|TEMP B-TREE/, lines.join('; '));
    }
    assert.match(plans.at(-1)?.[0] ?? '', /COVERING INDEX directories_listed_by_storage/);
  });
});

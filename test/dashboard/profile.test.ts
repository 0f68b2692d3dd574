/** One's own password and sessions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browserName } from '../../src/interfaces/dashboard/pages/profile.tsx';
import type { TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { codeAt, enrolled, entered, FACTOR, onDatabase, PASSWORD } from '../support/users.ts';

const shared = sharedDashboard();

const PROFILE = '/dashboard/profile';
const NEW = 'another correct horse battery';

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

async function again(berth: TestBerth, email: string, agent = 'test', password = PASSWORD): Promise<Visitor> {
  const visitor = visitorOf(place(berth));
  await visitor.post('/dashboard/sign-in', { email, password }, { 'user-agent': agent });
  return visitor;
}

const isIn = async (visitor: Visitor): Promise<boolean> => (await visitor.get(PROFILE)).status === 200;

test('a new password takes the current one, keeps the rules, and ends the other sessions at once', async () => {
  await using berth = await shared();
  using user = await entered(place(berth), berth.accountId, 'member');
  using elsewhere = await again(berth, user.email);
  const page = await user.get(PROFILE);
  for (const text of [
    'Current password</label>',
    'New password</label>',
    '<h2>Two-factor sign-in</h2>',
    '<h2>Where you’re signed in</h2>',
  ])
    assert.ok(page.text.includes(text), text);
  for (const [current_password, password, message] of [
    ['wrong', NEW, /Your current password is wrong\./],
    [PASSWORD, 'too short', /Use at least 12 characters\./],
    [PASSWORD, user.email, /Your email address cannot be your password/],
  ] as const) {
    const refused = await user.post(`${PROFILE}/password`, { current_password, password });
    assert.equal(refused.status, 422);
    assert.match(refused.text, message);
    assert.ok(!refused.text.includes(`value="${NEW}"`), 'no password is sent back');
  }
  assert.ok(await isIn(elsewhere));
  const done = await user.submit(`${PROFILE}/password`, { current_password: PASSWORD, password: NEW });
  assert.match(done.text, /Your password has been changed, and you’ve been signed out everywhere else/);
  assert.ok(!(await isIn(elsewhere)));
  assert.ok(!(await isIn(await again(berth, user.email))));
  assert.ok(await isIn(await again(berth, user.email, 'test', NEW)));
  const { key_id, action, changes } = await onDatabase(berth, ({ reads }) =>
    reads.selectFrom('audit').selectAll().orderBy('id', 'desc').executeTakeFirstOrThrow(),
  );
  assert.deepEqual([key_id, action], [`user:${user.email}`, 'update-user']);
  assert.ok(changes.includes('"password"') && !changes.includes(NEW));
});

test('a stolen session cannot guess the password', async () => {
  await using berth = await shared();
  using user = await entered(place(berth), berth.accountId);
  const guess = (current_password: string) =>
    user.post(`${PROFILE}/password`, { current_password, password: NEW }).then(({ text }) => text);
  for (let i = 0; i < 5; i += 1) assert.match(await guess(`guess ${i}`), /Your current password is wrong\./);
  assert.match(await guess(PASSWORD), /Too many wrong attempts\. Try again in 1 min\./);
  assert.match(
    (await user.post(`${PROFILE}/second-factor/turn-off`, { current_password: PASSWORD })).text,
    /wrong too often|Set up/,
  );
});

test('sessions are listed with where and with what, and each can be ended, or all others', async () => {
  await using berth = await shared();
  using user = await entered(place(berth), berth.accountId);
  const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  using one = await again(berth, user.email, firefox);
  const hostile = '"><script>alert(1)</script>';
  using two = await again(berth, user.email, hostile);
  const page = await user.get(PROFILE);
  assert.match(page.text, /Firefox on Linux.*127\.0\.0\.1/s);
  assert.ok(page.text.includes('<bdi>&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;</bdi>'));
  assert.ok(!page.text.includes('<script>alert'));
  assert.equal(page.text.match(/This browser/g)?.length, 1);

  const [row = ''] = /<tr>(?:(?!<tr>).)*Firefox on Linux.*?<\/tr>/s.exec(page.text) ?? [];
  const [, end = ''] = /action="([^"]*\/end)"/.exec(row) ?? [];
  using stranger = await signedIn(place(berth), berth.accountId);
  assert.equal((await stranger.post(end)).status, 404, "another user's");
  assert.ok(await isIn(one));
  assert.match((await user.submit(end)).text, /The browser has been signed out/);
  assert.ok(!(await isIn(one)));
  assert.ok(await isIn(two));
  assert.equal((await user.post(end)).status, 404);
  const rest = await user.submit(`${PROFILE}/sessions/end-others`);
  assert.match(rest.text, /All other browsers have been signed out/);
  assert.doesNotMatch(rest.text, /Sign out everywhere else/);
  assert.ok(!(await isIn(two)));
  assert.ok(await isIn(stranger));
});

test('a user without a password cannot set one here', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  assert.doesNotMatch((await user.get(PROFILE)).text, /New password/);
  const refused = await user.post(`${PROFILE}/password`, { current_password: '', password: NEW });
  assert.equal(refused.status, 422);
  const { secret } = await enrolled(user, Date.now() * 1000);
  const page = await user.get(FACTOR);
  assert.match(page.text, /To change it, enter a code\./);
  assert.doesNotMatch(page.text, /Current password/);
  // The next one, which a clock may be ahead by: that of the set-up was used.
  const code = codeAt(secret, Date.now() * 1000 + 30_000_000);
  assert.equal((await user.post(`${FACTOR}/turn-off`, { code })).status, 303);
});

test('the page words its own notice, whatever the address says', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const { id } = await berth.directory();
  const { location = '' } = (await user.post(`${PROFILE}/sessions/end-others`)).headers;
  assert.doesNotMatch((await user.get(`${PROFILE}?done=ended`)).text, /class="notice"/, 'something else was done');
  assert.match((await user.get(location)).text, /class="notice"/);
  assert.doesNotMatch((await user.get(location)).text, /class="notice"/, 'it is said once');
  for (const path of [PROFILE, '/dashboard/account', '/dashboard/team', `/dashboard/directories/${id}/files`])
    for (const done of ['constructor', '__proto__', 'toString', '%3Cb%3E', '']) {
      const { status, text } = await user.get(`${path}?done=${done}`);
      assert.equal(status, 200);
      assert.doesNotMatch(text, /class="notice"|native code/, `${path} ${done}`);
    }
});

test('browsers are named by what they say, and what says nothing known is shown as it is', () => {
  const names = {
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36 Edg/130.0':
      'Edge on Windows',
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15':
      'Safari on macOS',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1':
      'Safari on iPhone',
    'Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Mobile Safari/537.36':
      'Chrome on Android',
    'Firefox/1': 'Firefox',
    'curl/8.14.1': 'curl/8.14.1',
    '': 'unknown',
  };
  for (const [agent, name] of Object.entries(names)) assert.equal(browserName(agent), name);
});

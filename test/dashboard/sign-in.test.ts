/** Signing in: links that set a password, the sign-in page, and what locks others out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createUser, setDisabled } from '../../src/rules/users/users.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { invited, onDatabase, operator, PASSWORD } from '../support/users.ts';

const shared = sharedDashboard();

const SIGN_IN = '/dashboard/sign-in';
const COOKIE = '__Host-berth';

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

const FORM = (berth: TestBerth) => ({
  'content-type': 'application/x-www-form-urlencoded',
  origin: `https://127.0.0.1:${place(berth).port}`,
});

const withPassword = (password: string, repeated = password) => ({ password, repeated });

/** A user who has set a password. The session that this opened is not used. */
async function userOf(berth: TestBerth) {
  const user = await invited(berth, berth.accountId);
  using visitor = visitorOf(place(berth));
  const answer = await visitor.post(`/dashboard/link/${user.token}`, withPassword(PASSWORD));
  assert.equal(answer.status, 303, answer.text);
  await visitor.post('/dashboard/sign-out');
  return user;
}

const sessions = (berth: TestBerth, userId: string) =>
  onDatabase(berth, ({ reads }) =>
    reads.selectFrom('user_sessions').selectAll().where('user_id', '=', userId).execute(),
  );

test('a link sets a password, once, and signs in; looking at it first does not use it up', async () => {
  await using berth = await shared();
  const user = await invited(berth, berth.accountId);
  const path = `/dashboard/link/${user.token}`;
  using visitor = visitorOf(place(berth));
  for (let i = 0; i < 2; i += 1) {
    const page = await visitor.get(path);
    assert.equal(page.status, 200);
    assert.match(page.text, new RegExp(`<h1>Set your password</h1>.*You are invited to .*${user.email}`, 's'));
    for (const label of ['Password', 'Repeat password']) assert.match(page.text, new RegExp(`>${label}</label>`));
    assert.equal(page.headers['referrer-policy'], 'strict-origin', 'no page sees the link as its referrer');
  }
  assert.equal(visitor.cookies.size, 0);

  const wrong = [
    [withPassword(PASSWORD, `${PASSWORD} `), /The passwords don’t match\./],
    [withPassword('password1234', 'password12345'), /too common.*The passwords don’t match\./s],
    [withPassword('eleven char'), /Use at least 12 characters\./],
    [withPassword('x'.repeat(201)), /Use at most 200 characters\./],
    [withPassword('1Q2w3E4r5T6y'), /This password is too common/],
    [withPassword(user.email.toUpperCase()), /Your email address cannot be your password/],
    [{}, /Use at least 12 characters/],
  ] as const;
  for (const [fields, message] of wrong) {
    const refused = await visitor.post(path, fields);
    assert.equal(refused.status, 422);
    assert.match(refused.text, message);
    assert.ok(!refused.text.includes('value="1Q2w'), 'a password is not sent back');
  }

  const set = await visitor.post(path, withPassword(PASSWORD));
  assert.deepEqual([set.status, set.headers.location], [303, '/dashboard']);
  assert.equal((await visitor.get('/dashboard/directories')).status, 200);
  for (const used of [await visitor.get(path), await visitor.post(path, withPassword('another horse entirely'))]) {
    assert.equal(used.status, 404);
    assert.match(used.text, /works once, for 24 hours.*Ask an admin/s);
  }
  assert.equal((await visitor.get('/dashboard/link/nothing')).status, 404);
});

test('a person with users in several accounts chooses among those with that password', async () => {
  await using berth = await shared();
  const email = 'both@example.com';
  const join = async (name: string, password: string): Promise<void> => {
    const issuer = { clock: systemClock() };
    const { token } = await onDatabase(berth, async (database) => {
      const { id } = await createAccount({ database, ...issuer }, { name, plan: 'pro' });
      // No message says that others have it.
      return createUser({ database, ...issuer }, operator(id), { email, role: 'admin' });
    });
    using visitor = visitorOf(place(berth));
    assert.equal((await visitor.post(`/dashboard/link/${token}`, withPassword(password))).status, 303);
  };
  await join('One & Sons', PASSWORD);
  await join('Two', PASSWORD);
  await join('Three', `${PASSWORD} too`);
  using visitor = visitorOf(place(berth));
  const asked = await visitor.post(`${SIGN_IN}?next=/dashboard/team`, { email, password: PASSWORD });
  assert.equal(asked.headers.location, `${SIGN_IN}/account?next=%2Fdashboard%2Fteam`);
  assert.equal(visitor.cookies.has(COOKIE), false, 'not signed in yet');
  const page = await visitor.get(`${SIGN_IN}/account?next=%2Fdashboard%2Fteam`);
  const buttons = [...page.text.matchAll(/<button name="user" value="([^"]*)">([^<]*)</g)];
  assert.deepEqual(
    buttons.map(([, , name]) => name),
    ['One &amp; Sons', 'Two'],
  );
  const wrong = await visitor.send('POST', `${SIGN_IN}/account`, FORM(berth), 'user=somebody');
  assert.deepEqual([wrong.status, wrong.headers.location, visitor.cookies.has(COOKIE)], [303, SIGN_IN, false]);
  await visitor.post(SIGN_IN, { email, password: PASSWORD });
  const chosen = await visitor.post(`${SIGN_IN}/account?next=/dashboard/team`, { user: buttons[1]?.[1] ?? '' });
  assert.equal(chosen.headers.location, '/dashboard/team');
  assert.match((await visitor.get('/dashboard/account')).text, />Two</);
  assert.equal((await visitor.get(`${SIGN_IN}/account`)).headers.location, SIGN_IN, 'the choice is used up');
  using third = visitorOf(place(berth));
  const alone = await third.post(SIGN_IN, { email, password: `${PASSWORD} too` });
  assert.equal(alone.headers.location, '/dashboard');
  assert.match((await third.get('/dashboard/account')).text, />Three</);
});

test('signing in makes a session with a new token, in a cookie for this host alone', async () => {
  await using berth = await shared();
  const user = await userOf(berth);
  using visitor = visitorOf(place(berth));
  const page = await visitor.get(SIGN_IN);
  for (const label of ['Email', 'Password']) assert.match(page.text, new RegExp(`<label for="\\w+">${label}</label>`));
  assert.match(page.text, /<button>Sign in<\/button>/);
  assert.doesNotMatch(page.text, /company/);

  const planted = 'a-token-that-somebody-else-has-put-here';
  visitor.cookies.set(COOKIE, planted);
  const fields = { email: ` ${user.email.toUpperCase()}`, password: PASSWORD };
  const first = await visitor.post(SIGN_IN, fields);
  assert.deepEqual([first.status, first.headers.location], [303, '/dashboard']);
  const [cookie = ''] = (first.headers['set-cookie'] ?? []).slice(-1);
  for (const part of ['Secure', 'HttpOnly', 'SameSite=Lax', 'Path=/']) assert.match(cookie, new RegExp(`; ${part}`));
  assert.doesNotMatch(cookie, /Domain/i);
  const token = visitor.cookies.get(COOKIE) ?? '';
  assert.notEqual(token, planted);
  assert.equal((await visitor.get('/dashboard/directories')).status, 200);
  assert.equal((await visitor.get(SIGN_IN)).headers.location, '/dashboard', 'who is signed in has nothing to do here');

  assert.equal((await visitor.post(SIGN_IN, fields)).status, 303);
  assert.notEqual(visitor.cookies.get(COOKIE), token);
  assert.equal((await sessions(berth, user.id)).length, 1, 'the session before has ended');
  const [row] = await sessions(berth, user.id);
  assert.ok(!JSON.stringify(row).includes(visitor.cookies.get(COOKIE) ?? ''), 'the database has the hash alone');
});

test('the page that was wanted comes after signing in, if it is one of the dashboard', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const wanted = [
    ['/dashboard/directories?sort=name', '/dashboard/directories?sort=name'],
    ['/dashboard', '/dashboard'],
    ['', '/dashboard'],
    ['https://evil.example/dashboard', '/dashboard'],
    ['//evil.example/dashboard', '/dashboard'],
    ['/\\evil.example', '/dashboard'],
    ['\\\\evil.example/dashboard', '/dashboard'],
    ['/dashboard/..//evil.example', '/dashboard'],
    ['/dashboard\\..\\\\evil.example', '/dashboard'],
    ['/dashboardless', '/dashboard'],
    ['/api/v1/directories', '/dashboard'],
    ['javascript:alert(1)', '/dashboard'],
    ['\t//evil.example', '/dashboard'],
    ['/dashboard/x\r\nset-cookie: a=b', '/dashboard/xset-cookie:%20a=b'],
  ] as const;
  for (const [next, location] of wanted) {
    const answer = await user.get(`${SIGN_IN}?next=${encodeURIComponent(next)}`);
    assert.deepEqual([answer.status, answer.headers.location], [303, location], next);
  }
  using visitor = visitorOf(place(berth));
  const { email } = await userOf(berth);
  const refused = await visitor.get('/dashboard/directories?sort=name');
  const form = await visitor.get(String(refused.headers.location));
  const [, action = ''] = /<form method="post" action="([^"]*)"/.exec(form.text) ?? [];
  const answer = await visitor.post(action.replaceAll('&amp;', '&'), { email, password: PASSWORD });
  assert.equal(answer.headers.location, '/dashboard/directories?sort=name');
});

test('a refused sign-in shows one message, whatever the reason', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const user = await userOf(berth);
  const [without, disabled] = [await invited(berth, berth.accountId), await userOf(berth)];
  await onDatabase(berth, (database) =>
    setDisabled({ database, clock: systemClock() }, { ...operator(berth.accountId), userId: disabled.id }, true),
  );
  using visitor = visitorOf(place(berth));
  const attempts = [
    [user.email, 'wrong horse battery staple'],
    [without.email, PASSWORD],
    [disabled.email, PASSWORD],
    ['nobody@example.com', PASSWORD],
    ['', ''],
    [`${'x'.repeat(40_000)}@example.com`, PASSWORD],
    [user.email, ''],
    [`${user.email}\0`, PASSWORD],
    ["' or 1=1 --", PASSWORD],
  ] as const;
  const texts = new Set<string>();
  for (const [email, password] of attempts) {
    const { status, text } = await visitor.post(SIGN_IN, { email, password });
    assert.equal(status, 422, email);
    assert.match(text, /role="alert"[^>]*><p>The email or the password is wrong/);
    assert.ok(!text.includes(PASSWORD));
    texts.add(text.replace(/ value="[^"]*"/, ''));
  }
  assert.equal(texts.size, 1);
  assert.equal(visitor.cookies.size, 0);
});

test('a link of a disabled user does not work, nor does one that a newer link has replaced', async () => {
  await using berth = await shared();
  const user = await invited(berth, berth.accountId);
  const disabling = (isDisabled: boolean) =>
    onDatabase(berth, (database) =>
      setDisabled(
        { database, clock: systemClock() },
        { ...operator(berth.accountId), userId: user.id, mayLeaveNoAdmin: true },
        isDisabled,
      ),
    );
  using visitor = visitorOf(place(berth));
  const path = `/dashboard/link/${user.token}`;
  await disabling(true);
  assert.equal((await visitor.get(path)).status, 404);
  assert.equal((await visitor.post(path, withPassword(PASSWORD))).status, 404);
  await disabling(false);
  assert.equal((await visitor.get(path)).status, 200);
});

test('forms from another origin cannot sign in or set a password', async () => {
  await using berth = await shared();
  const user = await invited(berth, berth.accountId);
  using visitor = visitorOf(place(berth));
  const path = `/dashboard/link/${user.token}`;
  for (const origin of ['https://evil.example', 'null', '']) {
    assert.equal((await visitor.post(path, withPassword(PASSWORD), { origin })).status, 403);
    assert.equal((await visitor.post(SIGN_IN, { email: 'a', password: 'b' }, { origin })).status, 403);
  }
  assert.equal((await visitor.get(path)).status, 200);
});

test('requests without a session are counted by address, those with one and static files are not', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files, { unauthenticatedRateLimit: 20 });
  using user = await signedIn(place(berth), berth.accountId);
  using visitor = visitorOf(place(berth));
  const paths = [SIGN_IN, '/dashboard/link/nothing', '/dashboard/directories', '/dashboard/unknown'];
  const statuses: number[] = [];
  for (let i = 0; i < 30; i += 1) statuses.push((await visitor.get(paths[i % 4] ?? '')).status);
  assert.ok(!statuses.slice(0, 20).includes(429), String(statuses));
  assert.ok(statuses.includes(429), String(statuses));
  visitor.cookies.set(COOKIE, 'no session');
  for (let i = 0; i < 5; i += 1) statuses.push((await visitor.get('/dashboard')).status);
  assert.ok(statuses.slice(30).includes(429), 'a forged cookie does not help');
  const refused = await visitor.get(SIGN_IN);
  if (refused.status === 429) assert.match(refused.text, /<h1>Too many requests<\/h1>.*Wait a minute/s);
  for (let i = 0; i < 30; i += 1) {
    assert.equal((await visitor.get('/dashboard/static/style.css')).status, 200);
    assert.equal((await user.get('/dashboard/directories')).status, 200);
  }
});

test('attempts are limited by user and by network, equally for unknown users', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_TRUSTED_PROXIES: '127.0.0.1/32' });
  await using berth = await startBerth(files);
  const user = await userOf(berth);
  const from = (address: string): Visitor => {
    const visitor = visitorOf(place(berth));
    const headers = { 'x-forwarded-for': address };
    return { ...visitor, post: (path, fields) => visitor.post(path, fields, headers) };
  };
  for (const [email, address] of [
    [user.email, '198.51.100.7'],
    ['nobody@example.com', '198.51.100.8'],
  ] as const) {
    using attacker = from(address);
    // At once, since the bucket has another attempt every six seconds.
    const guesses = Array.from({ length: 14 }, () =>
      attacker.post(SIGN_IN, { email, password: 'wrong horse battery' }),
    );
    const statuses = (await Promise.all(guesses)).map(({ status }) => status).toSorted((x, y) => x - y);
    assert.deepEqual(statuses.slice(0, 10), Array<number>(10).fill(422), email);
    assert.equal(statuses.at(-1), 429, email);
  }
  using home = from('127.0.0.1');
  assert.equal((await home.post(SIGN_IN, { email: user.email, password: PASSWORD })).status, 303, 'where the user was');
});

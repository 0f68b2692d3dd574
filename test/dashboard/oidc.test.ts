/**
 * Signing in with the company's login, at a real OpenID provider: who can sign in, with which role, and what is refused.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { createUser } from '../../src/rules/users/users.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { ADMINS, ALICE, come, type Company, company, COMPANY, LOGIN } from './company.ts';
import { assertWithin } from '../support/long.ts';
import { invited, onDatabase, operator, PASSWORD } from '../support/users.ts';

const users = ({ berth }: Company) =>
  onDatabase(berth, async ({ db }) =>
    db.selectFrom('users').select(['email', 'account_id', 'role', 'oidc_subject']).orderBy('email').execute(),
  );

const isIn = async (visitor: Visitor): Promise<boolean> => (await visitor.get('/dashboard/directories')).status === 200;

function assertRefused(answer: { status: number; text: string }, status: number, message: RegExp): void {
  assert.equal(answer.status, status);
  assert.match(answer.text, /You are not signed in/);
  assert.match(answer.text, message);
}

test('the first time makes the user, and each further time gives the role that the provider says', async () => {
  await using here = await company();
  using page = visitorOf(here.place);
  assert.match(
    (await page.get('/dashboard/sign-in?next=/dashboard/team')).text,
    /href="\/dashboard\/oidc\?next=%2Fdashboard%2Fteam">Sign in with SSO</,
  );

  const { visitor, answer } = await come(here, ALICE, { next: '?next=/dashboard/api-keys' });
  assert.equal(answer.headers.location, '/dashboard/api-keys');
  assert.match((await visitor.get('/dashboard/api-keys')).text, /Company.*alice@example\.com.*Create key/s);
  const subject = `${here.provider.issuer} alice`;
  const row = { email: 'alice@example.com', account_id: COMPANY, oidc_subject: subject };
  assert.deepEqual(await users(here), [{ ...row, role: 'admin' }]);

  const again = await come(here, { ...ALICE, groups: 'staff' });
  assert.deepEqual(await users(here), [{ ...row, role: 'member' }]);
  assert.doesNotMatch((await again.visitor.get('/dashboard/api-keys')).text, /Create key/);
  assert.equal(await isIn(visitor), false, 'the session with the old role has ended');
  await come(here, { ...ALICE, email: 'alice.b@example.com' });
  assert.deepEqual(await users(here), [{ ...row, role: 'admin', email: 'alice.b@example.com' }]);

  const audit = await onDatabase(here.berth, async ({ db }) =>
    db.selectFrom('audit').select(['action', 'key_id', 'account_id', 'route']).orderBy('id').execute(),
  );
  const line = { key_id: 'user:alice@example.com', account_id: COMPANY, route: `GET ${LOGIN}/callback` };
  assert.deepEqual(
    audit,
    ['create-user', 'update-user', 'update-user'].map((action) => ({ action, ...line })),
  );
});

test("an ID token whose signature is not the provider's lets nobody in", async () => {
  await using here = await company();
  here.provider.forges = true;
  assertRefused((await come(here, ALICE)).answer, 403, /did not confirm who you are/);
  assert.deepEqual(await users(here), []);
});

test('an email that is not ASCII matches no user, whatever it folds into', async () => {
  await using here = await company();
  await onDatabase(here.berth, async (database) =>
    createUser({ database, clock: systemClock() }, operator(COMPANY), { email: 'kin@example.com', role: 'admin' }),
  );
  assertRefused((await come(here, { ...ALICE, email: '\u212Ain@example.com' })).answer, 403, /ASCII addresses only/);
  using admin = await signedIn(here.place, COMPANY);
  const refused = await admin.post('/dashboard/team', { email: '\u212Ain@example.org', role: 'member' });
  assert.match(refused.text, /Enter an email address such as dana@example\.com\./);
});

test('the provider gets the configured address, not the one in Host', async () => {
  await using here = await company({ BERTH_DASHBOARD_URL: 'https://sftp.example.com' });
  here.provider.open('https://sftp.example.com/dashboard/oidc/callback');
  const { visitor, answer, path } = await come(here, ALICE);
  assert.equal(answer.status, 303, path);
  assert.ok(await isIn(visitor));
});

test('a wrong state or nonce, a repeated callback, and one of another browser are refused', async () => {
  await using here = await company();
  const altered = (name: string) => (url: string) => url.replace(new RegExp(`${name}=[^&]*`), `${name}=forged`);
  for (const name of ['state', 'nonce', 'code_challenge']) {
    const forged = name === 'code_challenge' ? 'A'.repeat(43) : 'forged';
    const { visitor, answer } = await come(here, ALICE, {
      change: (url) => altered(name)(url).replace('code_challenge=forged', `code_challenge=${forged}`),
    });
    assertRefused(answer, 403, /did not confirm who you are/);
    assert.equal(await isIn(visitor), false, name);
  }
  assert.deepEqual(await users(here), []);

  const { visitor, path, answer } = await come(here, ALICE);
  assert.equal(answer.status, 303);
  const token = visitor.cookies.get('__Host-berth');
  visitor.cookies.delete('__Host-berth');
  assertRefused(await visitor.get(path), 400, /already complete/);
  assert.notEqual(token, undefined);

  // An attacker has kept the first cookie and replays it: the provider takes its code once.
  using thief = visitorOf(here.place);
  here.provider.person = ALICE;
  const begun = await thief.get(LOGIN);
  const kept = thief.cookies.get('__Host-berth-oidc') ?? '';
  const back = new URL(await here.provider.visit(String(begun.headers.location)));
  assert.equal((await thief.get(back.pathname + back.search)).status, 303);
  thief.cookies.clear();
  thief.cookies.set('__Host-berth-oidc', kept);
  assertRefused(await thief.get(back.pathname + back.search), 403, /did not confirm/);

  // The answer for one browser brought to another, which has begun too.
  using victim = visitorOf(here.place);
  await victim.get(LOGIN);
  const theirs = await visitor.get(LOGIN);
  const answerOfTheirs = new URL(await here.provider.visit(String(theirs.headers.location)));
  assertRefused(await victim.get(answerOfTheirs.pathname + answerOfTheirs.search), 403, /did not confirm/);
  assert.equal(await isIn(victim), false);
  using stranger = visitorOf(here.place);
  assertRefused(await stranger.get(answerOfTheirs.pathname + answerOfTheirs.search), 400, /another browser/);
  stranger.cookies.set('__Host-berth-oidc', Buffer.from('{"state":"x"}').toString('base64url'));
  assertRefused(await stranger.get(`${LOGIN}/callback?code=x&state=x`), 400, /another browser/);
});

test('the cookie of the way there is for this host, short-lived, and tells nothing', async () => {
  await using here = await company();
  using visitor = visitorOf(here.place);
  const { headers } = await visitor.get(LOGIN);
  const [line = ''] = headers['set-cookie'] ?? [];
  assert.match(line, /^__Host-berth-oidc=[\w-]+; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  const url = new URL(String(headers.location));
  assert.equal(url.searchParams.get('code_challenge_method'), 'S256');
  const text = Buffer.from(visitor.cookies.get('__Host-berth-oidc') ?? '', 'base64url').toString('latin1');
  assert.ok(!text.includes(url.searchParams.get('state') ?? 'none'));
});

test('somebody without a confirmed email or without one of the groups reads what to ask for, and no user is made', async () => {
  await using here = await company();
  for (const [person, message] of [
    [{ ...ALICE, email_verified: false }, /has not been confirmed/],
    [
      { sub: 'alice', email: 'alice@example.com', groups: [ADMINS] },
      /does not say whether alice@example\.com is yours/,
    ],
    [{ ...ALICE, groups: [] }, /sends nothing in the claim “groups”/],
    [{ sub: 'alice', email: 'alice@example.com', email_verified: true }, /sends nothing in the claim “groups”/],
    [{ ...ALICE, groups: ['staff '] }, /None of your values in the claim “groups” gives you access/],
  ] as const) {
    const { visitor, answer } = await come(here, person);
    assertRefused(answer, 403, message);
    assert.equal(await isIn(visitor), false);
  }
  assert.deepEqual(await users(here), []);
});

test('the first group of the map that somebody has decides', async () => {
  await using here = await company();
  await come(here, { ...ALICE, groups: ['others', 'staff'] });
  assert.deepEqual(
    (await users(here)).map(({ account_id, role }) => [account_id, role]),
    [[COMPANY, 'member']],
  );
});

test("a user of the account with that email becomes the provider's; one of another account stays as it is", async () => {
  await using here = await company();
  const known = await invited(here.place, COMPANY, 'member');
  await come(here, { ...ALICE, email: known.email });
  const [linked] = await users(here);
  assert.deepEqual(
    [linked?.email, linked?.role, linked?.oidc_subject],
    [known.email, 'admin', `${here.provider.issuer} alice`],
  );

  const foreign = await invited(here.place, here.berth.accountId, 'member');
  assert.equal((await come(here, { ...ALICE, sub: 'mallory', email: foreign.email })).answer.status, 303);
  assertRefused(
    (await come(here, { ...ALICE, groups: ['others'], email: known.email })).answer,
    403,
    /another account/,
  );
  assertRefused(
    (await come(here, { ...ALICE, sub: 'new alice', email: known.email })).answer,
    403,
    /belongs to another person/,
  );
  const rows = await users(here);
  assert.equal(rows.length, 3);
  assert.deepEqual(
    rows.find(({ email, account_id }) => email === foreign.email && account_id !== COMPANY),
    {
      email: foreign.email,
      account_id: here.berth.accountId,
      role: 'member',
      oidc_subject: null,
    },
  );
});

test('a disabled user cannot sign in, nor can anybody once the account is deleted', async () => {
  await using here = await company();
  const { visitor } = await come(here, ALICE);
  await onDatabase(here.berth, async ({ db }) => db.updateTable('users').set({ disabled_at: 1 }).execute());
  assert.equal(await isIn(visitor), false);
  assertRefused((await come(here, ALICE)).answer, 403, /disabled/);
  assertRefused((await come(here, { ...ALICE, groups: 'staff' })).answer, 403, /disabled/);
  await onDatabase(here.berth, async ({ db }) => {
    await db.updateTable('users').set({ disabled_at: null }).execute();
    await db.updateTable('accounts').set({ deleted_at: 1 }).where('id', '=', COMPANY).execute();
  });
  assertRefused((await come(here, ALICE)).answer, 403, /no longer exists here/);
});

test('a second factor of the user is asked for after the company’s login too', async () => {
  await using here = await company();
  await come(here, ALICE);
  await onDatabase(here.berth, async ({ db }) =>
    db.updateTable('users').set({ totp_secret: 'JBSWY3DPEHPK3PXP' }).execute(),
  );
  const { visitor, answer } = await come(here, ALICE);
  assert.equal(answer.headers.location, '/dashboard/sign-in/code');
  assert.equal((await visitor.get('/dashboard/directories')).headers.location, '/dashboard/sign-in/code');
});

test('signing in takes the place of the session that the browser had', async () => {
  await using here = await company();
  const { visitor } = await come(here, ALICE);
  const before = visitor.cookies.get('__Host-berth') ?? '';
  await come(here, ALICE, { visitor });
  const after = visitor.cookies.get('__Host-berth') ?? '';
  assert.notEqual(after, before);
  visitor.cookies.set('__Host-berth', before);
  assert.equal(await isIn(visitor), false);
});

test('if the provider is down or hangs, a page says so within seconds, nothing else waits, and berth asks again', async () => {
  await using here = await company();
  using visitor = visitorOf(here.place);
  here.provider.hangs = () => true;
  const started = performance.now();
  let hangs = true;
  const hanging = visitor.get(LOGIN).finally(() => (hangs = false));
  using other = visitorOf(here.place);
  assert.equal((await other.get('/dashboard/sign-in')).status, 200);
  assert.equal((await here.berth.send('GET', '/directories')).status, 200);
  assert.ok(hangs, 'others waited');
  assertRefused(await hanging, 503, /does not answer/);
  assertWithin(9000, performance.now() - started, 'ms until the page');

  here.provider.hangs = () => false;
  assert.equal((await come(here, ALICE)).answer.status, 303);
  here.provider.hangs = (path) => path.startsWith('/token');
  assertRefused((await come(here, ALICE)).answer, 403, /did not confirm/);
  await here.provider[Symbol.asyncDispose]();
  await here.berth.stop();
  await here.berth.start();
  using later = visitorOf({ config: here.berth.config, port: here.berth.service().dashboardPort ?? 0 });
  assertRefused(await later.get(LOGIN), 503, /does not answer/);
});

test('with passwords switched off there is no such form, and a link of the command line still lets in', async () => {
  await using here = await company({ BERTH_PASSWORD_LOGIN: 'off' });
  const { email, token } = await invited(here.place, COMPANY);
  using visitor = visitorOf(here.place);
  const page = await visitor.get('/dashboard/sign-in');
  assert.match(page.text, /Sign in with SSO/);
  assert.doesNotMatch(page.text, /Password|<form/);
  const set = await visitor.post(`/dashboard/link/${token}`, { password: PASSWORD, repeated: PASSWORD });
  assert.equal(set.status, 303);
  assert.equal(await isIn(visitor), true);
  using other = visitorOf(here.place);
  const refused = await other.post('/dashboard/sign-in', { email, password: PASSWORD });
  assert.equal(refused.headers.location, '/dashboard/sign-in');
  assert.equal(await isIn(other), false);
});

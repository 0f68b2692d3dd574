/** The second factor on its pages: set up, asked for at sign-in, recovery, required by the account, turned off, reset. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { scratch } from '../support/scratch.ts';
import { type SetClock, setClock } from '../support/set-clock.ts';
import { codeAt, enrolled, entered, FACTOR, onDatabase, PASSWORD } from '../support/users.ts';

const CODE = '/dashboard/sign-in/code';
const STEP = 30_000_000;

async function started(files: ReturnType<typeof scratch>): Promise<{ berth: TestBerth; clock: SetClock }> {
  const berth = await startBerth(files);
  const clock = setClock(Date.now() * 1000);
  await berth.stop();
  await berth.start(clock);
  return { berth, clock };
}

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

/** Has given the password, and now has to enter a code. */
async function halfway(berth: TestBerth, email: string): Promise<Visitor> {
  const visitor = visitorOf(place(berth));
  const answer = await visitor.post('/dashboard/sign-in?next=/dashboard/team', { email, password: PASSWORD });
  assert.equal(answer.headers.location, `${CODE}?next=%2Fdashboard%2Fteam`);
  return visitor;
}

const isIn = async (visitor: Visitor): Promise<boolean> => (await visitor.get('/dashboard/profile')).status === 200;

const audited = (berth: TestBerth) =>
  onDatabase(berth, async ({ reads }) => {
    const rows = await reads.selectFrom('audit').select(['key_id', 'changes']).orderBy('id').execute();
    return rows.map(({ key_id, changes }) => `${key_id} ${changes}`);
  });

test('a stolen session cannot set up a second factor: it needs the password, except just after a sign-in', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  const { berth, clock } = await started(files);
  await using _ = berth;
  using user = await entered(place(berth), berth.accountId);
  assert.doesNotMatch((await user.get(FACTOR)).text, /Current password/);
  clock.advance(301_000_000);
  const page = await user.get(FACTOR);
  assert.match(page.text, /Current password/);
  const [, secret = ''] = /<code>([A-Z2-7]{32})<\/code>/.exec(page.text) ?? [];
  const [, kept = ''] = /name="secret" value="([^"]*)"/.exec(page.text) ?? [];
  const code = codeAt(secret, clock.now());
  for (const current_password of ['', 'wrong']) {
    const refused = await user.post(FACTOR, { secret: kept, code, current_password });
    assert.equal(refused.status, 422);
    assert.match(refused.text, /Your current password is wrong/);
    assert.ok(refused.text.includes(`<code>${secret}</code>`));
  }
  const done = await user.submit(FACTOR, { secret: kept, code, current_password: PASSWORD });
  assert.match(done.text, /Two-factor sign-in is on/);

  using guest = await signedIn(place(berth), berth.accountId);
  const old = await guest.get(FACTOR);
  const [, key = ''] = /<code>([A-Z2-7]{32})<\/code>/.exec(old.text) ?? [];
  const [, sealed = ''] = /name="secret" value="([^"]*)"/.exec(old.text) ?? [];
  clock.advance(301_000_000);
  const withoutPassword = await guest.post(FACTOR, { secret: sealed, code: codeAt(key, clock.now()) });
  assert.equal(withoutPassword.status, 403, 'who has no password signs in again');
  assert.match(withoutPassword.text, /Sign out and sign in again/);
});

test('a second factor is active after its first right code; signing in then needs a code, and makes a new session', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  const { berth, clock } = await started(files);
  await using _ = berth;
  using user = await entered(place(berth), berth.accountId);
  using elsewhere = visitorOf(place(berth));
  await elsewhere.post('/dashboard/sign-in', { email: user.email, password: PASSWORD });
  assert.ok(await isIn(elsewhere));

  const page = await user.get(FACTOR);
  assert.match(page.text, /<svg class="qr-code" role="img" aria-label="QR code"/);
  assert.doesNotMatch(page.text, /style=/);
  const [, secret = ''] = /<code>([A-Z2-7]{32})<\/code>/.exec(page.text) ?? [];
  const [, kept = ''] = /name="secret" value="([^"]*)"/.exec(page.text) ?? [];
  assert.ok(!kept.includes(secret));
  const wrong = await user.post(FACTOR, { secret: kept, code: '000000' });
  assert.equal(wrong.status, 422);
  assert.match(wrong.text, /The code is wrong or has already been used\./);
  assert.ok(wrong.text.includes(`<code>${secret}</code>`), 'the same key, which the app knows by now');
  const code = codeAt(secret, clock.now());
  using other = await entered(place(berth), berth.accountId);
  assert.equal((await other.post(FACTOR, { secret: kept, code })).headers.location, FACTOR);
  assert.match((await other.get(FACTOR)).text, /Set up/, "another session's key is nobody's");
  const done = await user.submit(FACTOR, { secret: kept, code });
  const [, codes = ''] = /data-secret="recovery-codes">([^<]*)</.exec(done.text) ?? [];
  assert.equal(new Set(codes.split('\n')).size, 10);
  assert.match(
    done.text,
    /These codes won’t be shown again\..*Two-factor sign-in is on.*You have 10 recovery codes left/s,
  );
  assert.doesNotMatch((await user.get(FACTOR)).text, /data-secret/);
  assert.ok(!(await isIn(elsewhere)), 'a session from before it was required');
  assert.equal((await user.post(FACTOR, { secret: kept, code: codeAt(secret, clock.now()) })).status, 403);

  using visitor = await halfway(berth, user.email);
  const before = visitor.cookies.get('__Host-berth');
  for (const path of ['/dashboard', '/dashboard/profile', '/dashboard/team', FACTOR, '/dashboard/sign-in']) {
    const { status, headers } = await visitor.get(path);
    assert.ok(status === 303 ? headers.location === CODE : path === '/dashboard/sign-in', path);
  }
  assert.equal((await visitor.post('/dashboard/profile/sessions/end-others')).headers.location, CODE);
  assert.match((await visitor.get(CODE)).text, /<label for="code">Code<.*<button>Sign in<\/button>/s);
  assert.equal((await visitor.post(CODE, { code })).status, 422, 'the code of the set-up was used');
  clock.advance(STEP);
  const next = codeAt(secret, clock.now());
  const answer = await visitor.post(`${CODE}?next=/dashboard/team`, { code: `${next.slice(0, 3)} ${next.slice(3)}` });
  assert.equal(answer.headers.location, '/dashboard/team');
  assert.notEqual(visitor.cookies.get('__Host-berth'), before);
  assert.ok(await isIn(visitor));
  visitor.cookies.set('__Host-berth', before ?? '');
  assert.ok(!(await isIn(visitor)), 'the session that awaited the code is no more');
  using again = await halfway(berth, user.email);
  assert.equal((await again.post(CODE, { code: next })).status, 422, 'taken once');
});

test('a recovery code gets in once, also while wrong codes make the user wait; new ones end those before', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  const { berth, clock } = await started(files);
  await using _ = berth;
  using user = await entered(place(berth), berth.accountId);
  const { secret, recovery } = await enrolled(user, clock.now());
  clock.advance(STEP);
  using visitor = await halfway(berth, user.email);
  const right = codeAt(secret, clock.now());
  const wrong = right === '111111' ? '222222' : '111111';
  for (let i = 0; i < 5; i += 1) assert.match((await visitor.post(CODE, { code: wrong })).text, /The code is wrong/);
  assert.match((await visitor.post(CODE, { code: right })).text, /Too many wrong attempts\. Try again in 1 min\./);
  assert.match((await visitor.post(CODE, { code: 'aaaa-bbbb-cccc-dddd' })).text, /The code is wrong/);
  const [first = '', second = ''] = recovery;
  assert.equal((await visitor.post(CODE, { code: ` ${first.toUpperCase()} ` })).status, 303);
  assert.ok(await isIn(visitor));
  assert.match((await visitor.get(FACTOR)).text, /You have 9 recovery codes left/);
  using again = await halfway(berth, user.email);
  assert.equal((await again.post(CODE, { code: first })).status, 422);

  const renew = `${FACTOR}/recovery-codes`;
  const refused = await visitor.post(renew, { current_password: 'not this one' });
  assert.equal(refused.status, 422);
  assert.match(refused.text, /Your current password is wrong/);
  const renewed = await visitor.submit(renew, { current_password: PASSWORD });
  assert.match(renewed.text, /data-secret="recovery-codes".*You have 10 recovery codes left/s);
  assert.ok((await again.get(CODE)).headers.location?.startsWith('/dashboard/sign-in?'), 'other sign-ins have ended');
  using later = await halfway(berth, user.email);
  assert.equal((await later.post(CODE, { code: second })).status, 422);
  const [, codes = ''] = /data-secret="recovery-codes">([^<]*)</.exec(renewed.text) ?? [];
  assert.equal((await later.post(CODE, { code: codes.split('\n')[9] ?? '' })).status, 303);
});

test('it is turned off with a code or the password, and not while the account asks for it', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  const { berth, clock } = await started(files);
  await using _ = berth;
  using admin = await entered(place(berth), berth.accountId);
  const off = `${FACTOR}/turn-off`;
  const first = await enrolled(admin, clock.now());
  assert.equal((await admin.post(off)).status, 422);
  assert.equal((await admin.post(off, { code: codeAt(first.secret, clock.now()) })).status, 422, 'used at the set-up');
  clock.advance(STEP);
  const done = await admin.submit(off, { code: codeAt(first.secret, clock.now()) });
  assert.match(done.text, /Two-factor sign-in is off/);
  await enrolled(admin, clock.now());
  assert.match((await admin.submit(off, { current_password: PASSWORD })).text, /Two-factor sign-in is off/);
  const last = await audited(berth);
  assert.equal(
    last.at(-1),
    `user:${admin.email} {"email":{"from":"${admin.email}","to":"${admin.email}"},"second_factor":{"from":true,"to":false}}`,
  );

  using member = await entered(place(berth), berth.accountId, 'member');
  const require = '/dashboard/account/second-factor';
  assert.equal((await member.post(require, { required: 'yes' })).status, 403);
  assert.equal((await admin.post(require, { required: 'yes' })).status, 303);
  for (const user of [admin, member]) {
    for (const path of ['/dashboard', '/dashboard/profile', '/dashboard/account'])
      assert.equal((await user.get(path)).headers.location, FACTOR);
    assert.match((await user.get(FACTOR)).text, /Your account requires two-factor sign-in/);
  }
  assert.equal((await admin.post(require, { required: 'no' })).headers.location, FACTOR, 'not before there is one');
  const { recovery } = await enrolled(member, clock.now());
  assert.ok(await isIn(member));
  const refused = await member.post(off, { code: recovery[0] ?? '' });
  assert.equal(refused.status, 403);
  assert.match(refused.text, /requires two-factor sign-in, so it cannot be turned off/);
  await enrolled(admin, clock.now());
  assert.match((await admin.submit(require, { required: 'no' })).text, /optional from now on/);
  assert.equal((await member.post(off, { code: recovery[1] ?? '' })).status, 303);
});

test("an admin resets a lost second factor; one's own takes a proof, and another account's is not found", async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  const { berth, clock } = await started(files);
  await using _ = berth;
  using admin = await entered(place(berth), berth.accountId);
  using member = await entered(place(berth), berth.accountId, 'member');
  await enrolled(member, clock.now());
  await enrolled(admin, clock.now());
  const reset = (id: string) => `/dashboard/team/${id}/second-factor`;
  assert.equal((await member.post(reset(admin.id))).status, 403);
  assert.equal((await admin.post(reset(admin.id))).status, 403);
  using awaiting = await halfway(berth, member.email);
  assert.match((await admin.get(`/dashboard/team/${member.id}`)).text, /Reset two-factor sign-in/);
  const done = await admin.submit(reset(member.id));
  assert.match(done.text, /Two-factor sign-in is reset/);
  assert.doesNotMatch(done.text, /Reset two-factor sign-in/);
  assert.ok(!(await isIn(member)), 'its sessions have ended');
  assert.equal((await awaiting.get(CODE)).status, 303, 'and its unfinished sign-in');
  assert.match(
    (await audited(berth)).at(-1) ?? '',
    new RegExp(`^user:${admin.email} .*${member.email}.*second_factor`),
  );
  using visitor = visitorOf(place(berth));
  await visitor.post('/dashboard/sign-in', { email: member.email, password: PASSWORD });
  assert.ok(await isIn(visitor));
});

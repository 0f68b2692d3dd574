/**
 * Every form of the dashboard, sent by somebody who must not: without or with another token, from another origin, with
 * another type, as a member, for another account. A refused form changes nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth } from '../support/berth.ts';
import { type PageAnswer, signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { dashboardRoutes } from '../support/dashboard-routes.ts';
import { scratch } from '../support/scratch.ts';
import { addressOf, everything, FORM_TYPE, FORMS, idsIn, origin, place, stateOf, tokenOf } from './hostile-place.ts';

const ROUTES = dashboardRoutes();
/** Those of people who are signed in. */
const OURS = Object.entries(FORMS).filter(([, { by }]) => by !== 'anybody');

/** Sends each form of `routes` by `send`, and says which were not answered with `status`. */
async function answersOtherThan(
  status: number,
  routes: readonly (readonly [string, { readonly fields?: Record<string, string> }])[],
  send: (route: string, body: string) => Promise<PageAnswer>,
): Promise<string[]> {
  const others: string[] = [];
  for (const [route, { fields = {} }] of routes) {
    const answer = await send(route, new URLSearchParams(fields).toString());
    if (answer.status !== status) others.push(`${route}: ${answer.status}`);
  }
  return others;
}

test('every form is known here', () => {
  const forms = ROUTES.filter(({ method }) => method === 'POST').map(({ path }) => path);
  assert.deepEqual(forms.toSorted(), Object.keys(FORMS).toSorted());
  const others = ROUTES.filter(({ method, path }) => method !== 'GET' && !(path in FORMS));
  // A file that is put into a directory: its token is a header (`upload.test.ts`).
  assert.deepEqual(others, [{ method: 'PUT', path: '/dashboard/directories/:id/files/:path{.+}' }]);
});

test('a form without its token, with that of another session, from elsewhere or of another type changes nothing', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const ids = await everything(berth);
  const ours = origin(berth);
  using other = await signedIn(place(berth), berth.accountId);
  const others = await tokenOf(other);
  /** The defect of a request: its headers, its token (`right`: the session's own), and the answer if it is not 403. */
  const wrong: Readonly<Record<string, readonly [Record<string, string>, string, number?]>> = {
    'no token': [{ 'content-type': FORM_TYPE, origin: ours }, ''],
    "another session's token": [{ 'content-type': FORM_TYPE, origin: ours }, others],
    'another origin': [{ 'content-type': FORM_TYPE, origin: 'https://elsewhere.example' }, 'right'],
    'an origin like ours': [{ 'content-type': FORM_TYPE, origin: `${ours}.elsewhere.example` }, 'right'],
    'a hidden origin': [{ 'content-type': FORM_TYPE, origin: 'null' }, 'right'],
    'neither origin nor site': [{ 'content-type': FORM_TYPE }, 'right'],
    'another site': [{ 'content-type': FORM_TYPE, 'sec-fetch-site': 'cross-site' }, 'right'],
    'a neighbour': [{ 'content-type': FORM_TYPE, 'sec-fetch-site': 'same-site', origin: 'null' }, 'right'],
    'text/plain': [{ 'content-type': 'text/plain', origin: ours }, 'right', 415],
    'text/plain from elsewhere': [{ 'content-type': 'text/plain', origin: 'https://elsewhere.example' }, 'right'],
    JSON: [{ 'content-type': 'application/json', origin: 'https://elsewhere.example' }, 'right', 415],
    'no type': [{ origin: ours }, 'right', 415],
    'multipart without a boundary': [{ 'content-type': 'multipart/form-data', origin: ours }, 'right', 415],
  };
  const signedInOnes = new Map<string, Visitor>();
  for (const name of Object.keys(wrong)) signedInOnes.set(name, await signedIn(place(berth), berth.accountId));
  const before = await stateOf(berth);
  for (const [name, [headers, given, status = 403]] of Object.entries(wrong)) {
    const visitor = signedInOnes.get(name) ?? other;
    const token = given === 'right' ? await tokenOf(visitor) : given;
    const passed = await answersOtherThan(status, OURS, (route, body) =>
      visitor.send('POST', addressOf(route, ids), headers, `_csrf=${token}&${body}`),
    );
    assert.deepEqual(passed, [], name);
    visitor[Symbol.dispose]();
  }
  assert.equal(await stateOf(berth), before);
});

test('signing in and setting a password refuse forms of another site', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const ids = await everything(berth);
  using visitor = visitorOf(place(berth));
  const before = await stateOf(berth);
  const open = Object.entries(FORMS).filter(([, { by }]) => by === 'anybody');
  for (const headers of [
    { 'content-type': FORM_TYPE, origin: 'https://elsewhere.example' },
    { 'content-type': FORM_TYPE },
    { 'content-type': 'text/plain', origin: 'https://elsewhere.example' },
    { 'content-type': FORM_TYPE, 'sec-fetch-site': 'cross-site' },
  ]) {
    const passed = await answersOtherThan(403, open, (route, body) =>
      visitor.send('POST', addressOf(route, ids), headers, body),
    );
    assert.deepEqual(passed, []);
  }
  assert.equal(await stateOf(berth), before);
});

test("another account's ids are not found, alone or in a list; without a session there is no access", async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const mine = await everything(berth);
  const theirs = await everything(berth, true);
  const before = await stateOf(berth).then((state) => state.length);
  const pages = ROUTES.filter(({ method, path }) => method === 'GET' && /^(?!.*link).*:/.test(path));
  const unknown = Object.fromEntries(
    Object.keys(mine).map((name) => [name, '00000000-0000-4000-8000-000000000000']),
  ) as typeof mine;
  for (const foreign of [theirs, unknown]) {
    using admin = await signedIn(place(berth), berth.accountId);
    const token = await tokenOf(admin);
    const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
    for (const [route, { fields }] of OURS) {
      for (const part of idsIn(route)) {
        const path = addressOf(route, { ...mine, [part]: foreign[part] });
        const body = new URLSearchParams({ _csrf: token, ...fields }).toString();
        assert.equal((await admin.send('POST', path, headers, body)).status, 404, `${route} with their ${part}`);
      }
    }
    for (const { path } of pages)
      for (const part of idsIn(path)) {
        const answer = await admin.get(addressOf(path, { ...mine, [part]: foreign[part] }));
        const { status } = answer.status === 303 ? await admin.get(String(answer.headers.location)) : answer;
        assert.equal(status, 404, `${path} with their ${part}`);
      }
  }
  using nobody = visitorOf(place(berth));
  const passed = await answersOtherThan(303, OURS, async (route, body) => {
    const answer = await nobody.send(
      'POST',
      addressOf(route, mine),
      { 'content-type': FORM_TYPE, origin: origin(berth) },
      body,
    );
    assert.equal(answer.headers.location, '/dashboard/sign-in', route);
    return answer;
  });
  assert.deepEqual(passed, []);
  for (const { method, path } of ROUTES) {
    if (method !== 'GET' || /^\/dashboard\/(?:static|sign-in$|oidc|link)/.test(path)) continue;
    const { status, headers } = await nobody.get(addressOf(path, mine));
    assert.deepEqual([status, headers.location?.startsWith('/dashboard/sign-in')], [303, true], path);
  }
  // Two admins have come, and nothing else.
  const after = await stateOf(berth);
  assert.ok(after.length - before < 2000, after);
});

test('a member is refused what an admin may do', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const ids = await everything(berth);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const token = await tokenOf(member);
  const before = await stateOf(berth);
  const admins = OURS.filter(([, { by }]) => by === 'admin');
  assert.ok(admins.length > 15);
  const passed = await answersOtherThan(403, admins, (route, body) =>
    member.send(
      'POST',
      addressOf(route, ids),
      { 'content-type': FORM_TYPE, origin: origin(berth) },
      `_csrf=${token}&${body}`,
    ),
  );
  assert.deepEqual(passed, []);
  assert.equal(await stateOf(berth), before);
});

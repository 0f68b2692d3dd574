/** What holds for every page: the session it needs, its headers, and forms of other sessions and origins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor, visitorOf } from '../support/dashboard.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { addressOf, everything, FORMS } from './hostile-place.ts';

const shared = sharedDashboard();

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

const signIn = (berth: TestBerth): Promise<Visitor> => signedIn(place(berth), berth.accountId);

test('a page needs a session, and after a sign-in the requested page follows', async () => {
  await using berth = await shared();
  using visitor = visitorOf(place(berth));
  const refused = await visitor.get('/dashboard/directories?sort=name');
  assert.equal(refused.status, 303);
  assert.equal(refused.headers.location, '/dashboard/sign-in?next=%2Fdashboard%2Fdirectories%3Fsort%3Dname');
  using user = await signIn(berth);
  const page = await user.get('/dashboard/directories');
  assert.equal(page.status, 200);
  assert.match(page.text, /^<!DOCTYPE html><html lang="en">.*<h1>Directories<\/h1>/s);
});

test('every page has a strict policy, is kept by no cache, and stands in no frame', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  for (const path of ['/dashboard/directories', '/dashboard/nothing', '/dashboard/static/style.css']) {
    const { headers } = await user.get(path);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(headers['x-frame-options'], 'DENY');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['referrer-policy'], 'same-origin');
    assert.match(String(headers['cache-control']), path.includes('static') ? /max-age/ : /no-store/);
  }
});

test('a form of another session, without a token or from another origin changes nothing', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  using other = await signIn(berth);
  const [, others = ''] = /name="_csrf" value="([^"]*)"/.exec((await other.get('/dashboard/directories')).text) ?? [];
  assert.notEqual(others, '');
  assert.equal((await user.post('/dashboard/sign-out', { _csrf: others })).status, 403);
  assert.equal((await user.post('/dashboard/sign-out', { _csrf: '' })).status, 403);
  assert.equal((await user.post('/dashboard/sign-out', {}, { origin: 'https://elsewhere.example' })).status, 403);
  assert.equal((await user.get('/dashboard/directories')).status, 200);
  const token = user.cookies.get('__Host-berth') ?? '';
  assert.equal((await user.post('/dashboard/sign-out')).status, 303);
  user.cookies.set('__Host-berth', token);
  assert.equal((await user.get('/dashboard/directories')).status, 303, 'a cookie that was stolen before');
});

test('the API is where it was, with the dashboard beside it, without it, and with it elsewhere', async () => {
  for (const setting of [
    { BERTH_DASHBOARD: 'on' },
    { BERTH_DASHBOARD: 'off' },
    { BERTH_DASHBOARD: 'on', BERTH_DASHBOARD_PORT: '0' },
  ]) {
    using files = scratch(setting);
    await using berth = await startBerth(files);
    assert.equal((await berth.send('GET', '/directories')).status, 200);
    const { port, dashboardPort } = berth.service();
    const isBeside = setting.BERTH_DASHBOARD === 'on' && !('BERTH_DASHBOARD_PORT' in setting);
    assert.equal(dashboardPort === port, isBeside);
    using visitor = visitorOf({ config: berth.config, port });
    assert.equal((await visitor.get('/dashboard/directories')).status, isBeside ? 303 : 404);
    const [browser, program] = [await visitor.get('/', { accept: 'text/html,*/*' }), await visitor.get('/')];
    assert.deepEqual(
      [browser.status, program.status],
      [isBeside ? 302 : 404, 404],
      'a browser is led to the dashboard',
    );
    if (dashboardPort === undefined || isBeside) continue;
    using elsewhere = visitorOf({ config: berth.config, port: dashboardPort });
    assert.equal((await elsewhere.get('/')).headers.location, '/dashboard');
  }
});

test('pages have titles of their own and the mark as icon; forms that one comes for have the focus', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  using nobody = visitorOf(place(berth));
  const family = '👨‍👩‍👧';
  const { id } = await berth.directory({ name: `Acme ${family}` });
  const titles = new Set<string>();
  const pages = ['/files', '/access', '/webhook', '/activity', '/settings'];
  const addresses = [
    '/dashboard',
    ...['directories', 'deliveries', 'activity', 'api-keys', 'team', 'account', 'profile'].map(
      (each) => `/dashboard/${each}`,
    ),
    ...pages.map((each) => `/dashboard/directories/${id}${each}`),
  ];
  for (const address of addresses) {
    const { status, text } = await user.get(address);
    assert.equal(status, 200, address);
    titles.add(/<title>([^<]*)<\/title>/.exec(text)?.[1] ?? '');
    assert.match(text, /<link rel="icon" href="\/dashboard\/static\/mark\.svg" type="image\/svg\+xml"/);
    if (address.includes(id)) assert.ok(text.includes(`<h1>Acme ${family}</h1>`), address);
    assert.doesNotMatch(text, /U\+200D/);
  }
  assert.equal(titles.size, addresses.length, [...titles].join('\n'));
  const icon = await nobody.get('/dashboard/static/mark.svg');
  assert.equal(icon.status, 200);
  assert.match(String(icon.headers['content-type']), /image\/svg\+xml/);
  assert.match((await nobody.get('/dashboard/sign-in')).text, /<input type="email"[^>]* autofocus/);
});

test('the title says first whether the form before was taken, since a screen reader reads it first', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  const { id } = await berth.directory({ name: 'Acme' });
  const settings = `/dashboard/directories/${id}/settings`;
  const titleOf = ({ text }: { readonly text: string }) => /<title>([^<]*)<\/title>/.exec(text)?.[1];
  assert.equal(titleOf(await user.submit(settings, { name: 'Acme 2' })), 'Saved. Settings · Acme 2 · berth');
  assert.equal(titleOf(await user.get(`${settings}?done=saved`)), 'Settings · Acme 2 · berth', 'once');
  assert.equal(titleOf(await user.post(settings, { name: '' })), 'Error: Settings · Acme 2 · berth');
  using nobody = visitorOf(place(berth));
  const refused = await nobody.post('/dashboard/sign-in', { email: 'a@example.com', password: 'x' });
  assert.equal(titleOf(refused), 'Error: Sign in · berth');
});

test('a joiner within an emoji stays, and every other one is shown as its code point', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  const { id } = await berth.directory({ name: 'Ac\u200dme' });
  assert.match((await user.get(`/dashboard/directories/${id}/files`)).text, /<h1>AcU\+200Dme<\/h1>/);
});

test('a form’s address leads to the page above it, as former pages that asked a question', async () => {
  await using berth = await shared();
  using user = await signIn(berth);
  const ids = await everything(berth);
  const files = `/dashboard/directories/${ids.directories}/files`;
  for (const [form, page] of [
    [`${files}/${ids.files}/delete`, files],
    [`/dashboard/api-keys/${ids['api-keys']}/revoke`, '/dashboard/api-keys'],
    ['/dashboard/deliveries/test', '/dashboard/deliveries'],
    [`/dashboard/directories/${ids.directories}/partial/${ids.partial}/announce`, files.replace(/\/files$/, '')],
  ] as const)
    assert.equal((await user.get(form)).headers.location, page);
  for (const form of Object.keys(FORMS)) assert.notEqual((await user.get(addressOf(form, ids))).status, 404, form);
  assert.equal((await user.get(`${files}/${ids.files}/nothing`)).status, 404);
  using visitor = visitorOf(place(berth));
  assert.match(String((await visitor.get('/dashboard/deliveries/test')).headers.location), /^\/dashboard\/sign-in/);
});

/** Sessions that are fixed or stolen, addresses that lead away, odd forms and methods, and the headers of every page. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startBerth } from '../support/berth.ts';
import { signedIn, visitorOf } from '../support/dashboard.ts';
import { dashboardRoutes } from '../support/dashboard-routes.ts';
import { assertWithin } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { addressOf, everything, FORM_TYPE, FORMS, origin, place, stateOf, tokenOf } from './hostile-place.ts';

const shared = sharedDashboard();

test('a session is a new one at each sign-in, and its cookie is of no use afterwards', async () => {
  await using berth = await shared();
  const { link } = await everything(berth);
  using visitor = visitorOf(place(berth));
  visitor.cookies.set('__Host-berth', 'A'.repeat(43));
  const fields = new URLSearchParams({ password: 'correct horse battery', repeated: 'correct horse battery' });
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
  const { status, headers: answer } = await visitor.send('POST', `/dashboard/link/${link}`, headers, fields.toString());
  assert.equal(status, 303);
  const [cookie = ''] = answer['set-cookie'] ?? [];
  assert.match(cookie, /^__Host-berth=[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  const token = visitor.cookies.get('__Host-berth') ?? '';
  assert.notEqual(token, 'A'.repeat(43));
  using thief = visitorOf(place(berth));
  thief.cookies.set('__Host-berth', 'A'.repeat(43));
  assert.equal((await thief.get('/dashboard/directories')).status, 303, 'the cookie that was fixed before');
  thief.cookies.set('__Host-berth', token);
  assert.equal((await thief.get('/dashboard/directories')).status, 200);
  assert.equal((await visitor.post('/dashboard/sign-out')).status, 303);
  assert.equal(visitor.cookies.has('__Host-berth'), false);
  thief.cookies.set('__Host-berth', token);
  assert.equal((await thief.get('/dashboard/directories')).status, 303, 'a stolen cookie after the sign-out');
});

test('after signing in, nobody is redirected to another site', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  for (const next of [
    'https://elsewhere.example/dashboard',
    '//elsewhere.example/dashboard',
    '/\\elsewhere.example/dashboard',
    '\\\\elsewhere.example/dashboard',
    '/dashboard/..//elsewhere.example',
    '/dashboard/../..//elsewhere.example/dashboard',
    '/dashboard@elsewhere.example',
    '/dashboardx',
    'javascript:alert(1)//dashboard',
    'https:/dashboard',
    '/api/v1/directories',
    '/dashboard\r\nset-cookie: a=b',
    '\t//elsewhere.example/dashboard',
    'data:text/html,/dashboard',
  ]) {
    const { headers } = await user.get(`/dashboard/sign-in?${new URLSearchParams({ next }).toString()}`);
    const there = new URL(headers.location ?? '', origin(berth));
    assert.equal(there.origin, origin(berth), next);
    assert.match(String(headers.location), /^\/dashboard(?:\/[\w%:]|$)/, next);
    assert.equal(headers['set-cookie'], undefined, next);
  }
});

test('huge, crowded and odd forms are answered at once, and never by an error of ours', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using admin = await signedIn(place(berth), berth.accountId);
  const token = await tokenOf(admin);
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
  const before = await stateOf(berth);
  const forms: Readonly<Record<string, readonly [string, number]>> = {
    'over the limit': [`_csrf=${token}&name=${'x'.repeat(70_000)}`, 413],
    'ten thousand fields': [`_csrf=${token}&${'a=&'.repeat(10_000)}`, 422],
    'ten thousand of one name': [`_csrf=${token}&role=admin&${'name=&'.repeat(10_000)}`, 422],
    'names of the language': [`_csrf=${token}&__proto__=x&constructor=y&toString=z&name=&role=admin`, 422],
    'two tokens': [`_csrf=${token}&_csrf=&name=new&role=admin`, 403],
    'half an escape': [`_csrf=${token}&name=%&role=%e2%28%a1`, 422],
    'a name of no text': [`_csrf=${token}&name=%00%ff&role=admin`, 422],
    'lists by brackets': [`_csrf=${token}&name[]=new&role[]=admin`, 422],
    nothing: ['', 403],
  };
  for (const [name, [body, expected]] of Object.entries(forms)) {
    const started = performance.now();
    const { status } = await admin.send('POST', '/dashboard/api-keys', headers, body);
    assert.equal(status, expected, name);
    assertWithin(2000, performance.now() - started, `${name}, in ms`);
  }
  assert.equal(await stateOf(berth), before);
});

test('a form that is refused unread does not end the connection for the requests after it', async () => {
  await using berth = await shared();
  const { port, config } = place(berth);
  const server = { port, ca: readFileSync(config.tls.cert) };
  const next = `GET /dashboard/static/mark.svg HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`;
  const after = async (size: number, type: string): Promise<string> => {
    using connection = await rawConnection(server);
    connection.write(
      `POST /dashboard/directories HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\norigin: ${origin(berth)}\r\n` +
        `content-type: ${type}\r\ncontent-length: ${size}\r\n\r\n${'a'.repeat(size)}`,
    );
    // The adapter closes a connection if the body has not been read by then.
    await wait(800);
    connection.write(next);
    const statuses = () => Array.from(connection.received().matchAll(/HTTP\/1\.1 (\d+)/g), ([, status]) => status);
    await Promise.race([connection.ended, until('there are two answers', () => statuses().length === 2)]);
    return statuses().join(' ');
  };
  const answers = await Promise.all([after(140_000, FORM_TYPE), after(60_000, 'text/plain'), after(60_000, FORM_TYPE)]);
  assert.deepEqual(answers, ['413 200', '415 200', '303 200']);
});

test('other methods on pages and forms change nothing and break nothing', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const ids = await everything(berth);
  using admin = await signedIn(place(berth), berth.accountId);
  const token = await tokenOf(admin);
  const before = await stateOf(berth);
  const paths = [...new Set(Object.keys(FORMS).map((route) => addressOf(route, ids)))];
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth), 'x-http-method-override': 'POST' };
  for (const method of ['PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    for (const path of paths) {
      const { status } = await admin.send(method, path, headers, `_csrf=${token}&_method=POST&name=new&role=admin`);
      // There a file could be put, with the token in a header.
      const mayPut = method === 'PUT' && path.includes('/files/');
      assert.equal(status, mayPut ? 403 : 404, `${method} ${path}`);
    }
  for (const path of ['/dashboard', '/dashboard/directories', '/dashboard/api-keys', '/dashboard/profile']) {
    const { status, text } = await admin.send('HEAD', path);
    assert.deepEqual([status, text], [200, ''], path);
  }
  assert.equal(await stateOf(berth), before);
});

test('every answer has a strict policy, its type, and is kept by no cache', async () => {
  await using berth = await shared();
  const ids = await everything(berth);
  using admin = await signedIn(place(berth), berth.accountId);
  using nobody = visitorOf(place(berth));
  const pages = dashboardRoutes().filter(({ method, path }) => method === 'GET' && !path.endsWith('/events'));
  for (const path of [...pages.map(({ path: route }) => addressOf(route, ids)), '/dashboard/none', '/dashboard/%00']) {
    for (const visitor of [admin, nobody]) {
      const { status, headers } = await visitor.get(path);
      const policy = String(headers['content-security-policy']);
      assert.ok(status < 500, `${path}: ${status}`);
      assert.match(policy, /default-src 'none'/, path);
      assert.match(policy, /frame-ancestors 'none'|sandbox/, path);
      assert.doesNotMatch(policy, /unsafe|https?:|\*/, path);
      assert.equal(headers['x-content-type-options'], 'nosniff', path);
      assert.match(String(headers['referrer-policy']), /^(?:same-origin|strict-origin|no-referrer)$/, path);
      assert.match(String(headers['cache-control']), path.includes('/static/') ? /max-age/ : /no-store/, path);
      assert.equal(headers['access-control-allow-origin'], undefined, path);
      if (status === 200) assert.notEqual(headers['content-type'], undefined, path);
    }
  }
});

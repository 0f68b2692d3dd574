/**
 * Ways around a user's limits besides other ids in an address: addresses that are written differently, cookies that the user makes,
 * answers that differ, and streams that are open.
 */
import assert from 'node:assert/strict';
import { createHash, hkdfSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { test } from 'node:test';
import { seal } from '../../src/interfaces/dashboard/sealed.ts';
import type { TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dataOf } from '../support/field-sets.ts';
import { dashboardRoutes } from '../support/dashboard-routes.ts';
import { rawConnection } from '../support/raw-http.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';
import { addressOf, everything, FORM_TYPE, FORMS, idsIn, origin, place, tokenOf } from './hostile-place.ts';

const shared = sharedDashboard();

const limit = (berth: TestBerth, { email }: Visitor, to: { directories?: string; read_only?: 1 }) =>
  onDatabase(berth, ({ db }) => db.updateTable('users').set(to).where('email', '=', email).execute());

async function limited(berth: TestBerth, directory: string): Promise<Visitor> {
  const visitor = await signedIn(place(berth), berth.accountId);
  await limit(berth, visitor, { directories: JSON.stringify([directory]) });
  return visitor;
}

/** Makes the cookie that has a page show a secret once. A browser knows its session's token, so its user can make it. */
function forge(visitor: Visitor, page: string): void {
  const key = Buffer.from(hkdfSync('sha256', visitor.cookies.get('__Host-berth') ?? '', '', 'berth-once', 32));
  const name = createHash('sha256').update(page).digest('hex').slice(0, 16);
  const text = JSON.stringify({ kind: 'webhook-secret', value: '', page });
  visitor.cookies.set(`__Host-berth-once-${name}`, seal(key, text));
}

test('a cookie that the user has made shows no webhook secret', async () => {
  await using berth = await shared();
  const { id } = await berth.directory();
  await berth.send('PUT', '/webhook', { json: { url: 'https://example.com/token-of-the-account' } });
  const { secret } = dataOf<{ secret: string }>(await berth.send('GET', '/webhook'));
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: null } } });
  const page = `/dashboard/directories/${id}/webhook`;
  using user = await limited(berth, id);
  using reader = await signedIn(place(berth), berth.accountId, 'member');
  await limit(berth, reader, { read_only: 1 });
  for (const visitor of [user, reader])
    for (const each of [page, '/dashboard/account']) {
      forge(visitor, each);
      const { text } = await visitor.get(each);
      assert.ok(!text.includes(secret), each);
    }
  // The address of the account's webhook may have a token, too.
  assert.match((await user.get(page)).text, /The account’s secret signs them/);
  const renewed = await user.submit(`${page}/secret`);
  assert.ok(!renewed.text.includes(secret), 'the own secret was renewed');
  await berth.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: 'https://example.org/' } } });
  const own = await user.submit(`${page}/secret`);
  assert.match(own.text, /data-secret="webhook-secret"/);
  assert.doesNotMatch(own.text, /token-of-the-account/);
});

test('no other way of writing an address leads to a page of the whole account', async () => {
  await using berth = await shared();
  const { id } = await berth.directory();
  using user = await limited(berth, id);
  const token = await tokenOf(user);
  for (const page of ['team', 'api-keys', 'account', 'directories/new', 'directories/import'])
    for (const written of [
      `/dashboard/${page}/`,
      `/dashboard//${page}`,
      `//dashboard/${page}`,
      `/dashboard/./${page}`,
      `/dashboard/%2e/${page}`,
      `/dashboard/profile/../${page}`,
      `/dashboard/profile/%2e%2e/${page}`,
      `/dashboard/directories/../${page}`,
      `/dashboard/directories/..%2f${page}`,
      `/dashboard/find/..;/${page}`,
      `/dashboard/${page.replace('a', '%61').replace('i', '%69')}`,
      `/dashboard/${page.toUpperCase()}`,
      `/DASHBOARD/${page}`,
      `/dashboard/${page};x`,
      `/dashboard/${page}%00`,
      `/dashboard/${page}%20`,
      `/dashboard/${page}?`,
      `/dashboard/${page}#x`,
      `\\dashboard\\${page}`,
      `${origin(berth)}/dashboard/${page}`,
    ])
      for (const method of ['GET', 'POST']) {
        const at = await rawConnection({ port: place(berth).port, ca: readFileSync(berth.config.tls.cert) });
        const body = method === 'POST' ? `_csrf=${token}&name=x&email=x@example.com&role=admin&csv=name%0Ax` : '';
        const cookie = `Cookie: __Host-berth=${user.cookies.get('__Host-berth')}\r\nOrigin: ${origin(berth)}\r\n`;
        const framing = body && `Content-Type: ${FORM_TYPE}\r\nContent-Length: ${body.length}\r\n`;
        at.write(
          `${method} ${written} HTTP/1.1\r\nHost: 127.0.0.1:${place(berth).port}\r\nConnection: close\r\n${cookie}${framing}\r\n${body}`,
        );
        await at.ended;
        const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(at.received())?.[1] ?? 0);
        at[Symbol.dispose]();
        assert.ok([0, 302, 400, 401, 403, 404, 405, 415, 501].includes(status), `${method} ${written}: ${status}`);
      }
});

test('somebody who may only read puts no file, whatever its name', async () => {
  await using berth = await shared();
  const { id } = await berth.directory();
  using reader = await signedIn(place(berth), berth.accountId);
  await limit(berth, reader, { read_only: 1 });
  const token = await tokenOf(reader);
  for (const name of [
    'new.csv',
    'selected',
    'in/files/selected',
    'profile',
    'in/sign-in',
    'files%2Fselected',
    'x%2ffiles%2fselected',
  ]) {
    const sent = await reader.send(
      'PUT',
      `/dashboard/directories/${id}/files/${name}`,
      { 'x-csrf': token, origin: origin(berth) },
      'x',
    );
    assert.deepEqual([sent.status, /You may only read/.test(sent.text)], [403, true], name);
  }
});

test('a directory that somebody may not see is answered like one that does not exist', async () => {
  await using berth = await shared();
  const mine = await everything(berth);
  const theirs = await everything(berth);
  const nobodys = {
    ...theirs,
    directories: randomUUID(),
    files: randomUUID(),
    partial: randomUUID(),
    quarantine: randomUUID(),
    deliveries: randomUUID(),
    links: randomUUID(),
  };
  using user = await limited(berth, mine.directories);
  const token = await tokenOf(user);
  const headers = { 'content-type': FORM_TYPE, origin: origin(berth) };
  const same = (text: string, ids: typeof theirs): string => {
    let left = text;
    for (const id of Object.values(ids)) left = left.replaceAll(id, 'ID');
    return left;
  };
  for (const { method, path } of dashboardRoutes()) {
    if (!idsIn(path).includes('directories') || path.endsWith('/events') || path.includes('{')) continue;
    const fields = new URLSearchParams({ _csrf: token, ...FORMS[path]?.fields, file: theirs.files }).toString();
    for (const part of idsIn(path)) {
      const variant = (of: typeof theirs) => ({ ...(part === 'directories' ? of : mine), [part]: of[part] });
      const [a, b] = await Promise.all(
        [theirs, nobodys].map(async (of) => {
          const at = addressOf(path, variant(of));
          const { status, text } =
            method === 'POST' ? await user.send('POST', at, headers, fields) : await user.get(at);
          return {
            status,
            text: same(same(same(text, theirs), nobodys), mine).replaceAll(/value="[\da-f-]{36}"/g, ''),
          };
        }),
      );
      assert.deepEqual(a, b, `${method} ${path} ${part}`);
    }
  }
  for (const [path, { fields }] of Object.entries(FORMS).filter(
    ([, { fields: f }]) => f?.['directory'] !== undefined,
  )) {
    const [a, b] = await Promise.all(
      [theirs, nobodys].map(async (of) => {
        const body = new URLSearchParams({ _csrf: token, ...fields, directory: of.directories }).toString();
        const { status, text } = await user.send('POST', addressOf(path, mine), headers, body);
        return { status, text: same(same(text, theirs), nobodys) };
      }),
    );
    assert.deepEqual(a, b, path);
  }
});

test('a stream ends when its directory is taken away, or its user may only read', async () => {
  await using berth = await shared();
  const { id } = await berth.directory();
  const { id: other } = await berth.directory();
  const { port, config } = place(berth);
  const ways = [{ directories: JSON.stringify([other]) }, { read_only: 1 as const }].map(async (to) => {
    using user = await limited(berth, id);
    const cookie = `__Host-berth=${user.cookies.get('__Host-berth')}`;
    const ends = [
      '/dashboard/deliveries/events',
      '/dashboard/activity/events',
      `/dashboard/directories/${id}/files/events`,
      `/dashboard/directories/${id}/activity/events`,
    ].map(async (path) => {
      const outgoing = request({
        host: '127.0.0.1',
        port,
        path,
        headers: { cookie, accept: 'text/event-stream' },
        ca: readFileSync(config.tls.cert),
      });
      outgoing.end();
      const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
      return { path, incoming };
    });
    const open = await Promise.all(ends);
    await limit(berth, user, to);
    await Promise.all(
      open.map(async ({ path, incoming }) => {
        let text = '';
        for await (const chunk of incoming) text += String(chunk);
        assert.match(text, /event: end/, path);
      }),
    );
  });
  await Promise.all(ways);
});

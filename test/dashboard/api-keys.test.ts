/** The API keys page: what it shows, what it changes, and who may. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Plan } from '../../src/foundation/db/schema.ts';
import { apiClient } from '../support/api-client.ts';
import type { TestBerth } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { signedIn } from '../support/dashboard.ts';
import { questionIn } from '../support/directory-page.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { textOf } from './webhook-place.ts';

const shared = sharedDashboard();

const PATH = '/dashboard/api-keys';

const place = (berth: TestBerth) => ({ config: berth.config, port: berth.service().dashboardPort ?? 0 });

async function withDatabase<T>(
  berth: TestBerth,
  use: (database: Awaited<ReturnType<typeof openDatabase>>) => Promise<T>,
) {
  const database = await openDatabase(berth.config.database);
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

const otherAccount = (berth: TestBerth, plan: Plan) =>
  withDatabase(berth, async (database) => {
    const issuer = { database, clock: systemClock(), config: { environment: 'live' } } as const;
    const { id: accountId } = await createAccount(issuer, { name: 'Other', plan });
    const key = await createKey(issuer, { accountId }, { role: 'admin', name: 'theirs' });
    return { accountId, keyId: key.id };
  });

const audits = (berth: TestBerth) =>
  withDatabase(berth, async ({ db }) =>
    db.selectFrom('audit').selectAll().where('account_id', '=', berth.accountId).orderBy('id').execute(),
  );

async function statusWith(berth: TestBerth, key: string): Promise<number> {
  using client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key });
  return (await client.send('GET', '/directories')).status;
}

test('a key that a program made is listed with the name of its maker', async () => {
  await using berth = await shared();
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const made = await berth.send('POST', '/api_keys', { json: { name: 'for the import', role: 'member' } });
  assert.equal(made.status, 201, made.text);
  assert.match(textOf((await member.get(PATH)).text), /for the import.* by key "test"/);
});

test('an admin makes a key that is shown once and works, and revokes it after a question', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  const page = await admin.submit(PATH, { name: 'nightly import', role: 'member' });
  const [, key = ''] = /data-secret="api-key"[^>]*>([^<]+)</.exec(page.text) ?? [];
  assert.match(key, /^svc_live_\w{38}$/);
  assert.match(page.text, /This is the only time it is shown/);
  const command = `curl -H 'Authorization: Bearer ${key}' https://127.0.0.1:${place(berth).port}/api/v1/directories`;
  assert.ok(page.text.replaceAll('&#39;', "'").includes(command));
  assert.equal(await statusWith(berth, key), 200);

  const again = await admin.get(PATH);
  assert.doesNotMatch(again.text, /data-secret/);
  assert.match(again.text, /nightly import.*member.*No limits.*by.*@example\.com/s);
  const [, id = ''] = new RegExp(`${PATH}/([^/]+)/revoke`).exec(again.text) ?? [];
  const question = await admin.post(`${PATH}/${id}/revoke`, questionIn(again.text, 'Revoke'));
  assert.match(question.text, /Revoke: nightly import.*<button class="danger solid">Revoke<\/button>/s);
  assert.equal(await statusWith(berth, key), 200, 'asking changes nothing');
  const done = await admin.submit(`${PATH}/${id}/revoke`);
  assert.match(done.text, /The key is revoked\..*class="quiet".*nightly import/s);
  assert.equal(await statusWith(berth, key), 401);
  assert.doesNotMatch(done.text, new RegExp(`${id}/revoke`), 'nothing is left to ask');

  const rows = await audits(berth);
  assert.deepEqual(
    rows.map((row) => [row.action, row.key_id, row.account_id, row.route]),
    [
      ['create-key', `user:${admin.email}`, berth.accountId, `POST ${PATH}`],
      ['revoke-key', `user:${admin.email}`, berth.accountId, `POST ${PATH}/:id/revoke`],
    ],
  );
  assert.ok(rows.every(({ changes }) => changes.includes(id) && changes.includes('nightly import')));
  assert.ok(!JSON.stringify(rows).includes(key), 'the audit has no key');
});

test('a member sees the keys, and the server refuses everything else', async () => {
  await using berth = await shared();
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const page = await member.get(PATH);
  assert.match(page.text, /<bdi>test<\/bdi>/);
  assert.doesNotMatch(page.text, /Create key|>Revoke</);
  const [mine] = await withDatabase(berth, ({ db }) =>
    db.selectFrom('api_keys').select('id').where('account_id', '=', berth.accountId).execute(),
  );
  assert.equal((await member.post(PATH, { name: 'x', role: 'member' })).status, 403);
  assert.equal((await member.post(`${PATH}/${mine?.id}/revoke`)).status, 403);
  assert.equal(await statusWith(berth, berth.key), 200);
});

test("another account's keys are neither shown nor revoked", async () => {
  await using berth = await shared();
  const { keyId } = await otherAccount(berth, 'pro');
  using admin = await signedIn(place(berth), berth.accountId);
  assert.doesNotMatch((await admin.get(PATH)).text, /theirs/);
  assert.doesNotMatch((await admin.get(`${PATH}?after=${keyId}`)).text, /theirs/);
  const unknown = '00000000-0000-4000-8000-000000000000';
  for (const id of [keyId, unknown]) assert.equal((await admin.post(`${PATH}/${id}/revoke`)).status, 404);
  const row = await withDatabase(berth, ({ db }) =>
    db.selectFrom('api_keys').select('revoked_at').where('id', '=', keyId).executeTakeFirstOrThrow(),
  );
  assert.equal(row.revoked_at, null);
});

test('on Free and Starter the page says why there are no keys, and the server makes none', async () => {
  await using berth = await shared();
  for (const plan of ['free', 'starter'] as const) {
    const { accountId } = await otherAccount(berth, plan);
    using admin = await signedIn(place(berth), accountId);
    const page = await admin.get(PATH);
    assert.match(page.text, new RegExp(`Pro and Business plans.*on the\\s+${plan} plan`, 's'));
    assert.doesNotMatch(page.text, /Create key/);
    const refused = await admin.post(PATH, { name: 'x', role: 'admin' });
    assert.equal(refused.status, 403);
    assert.match(refused.text, /Pro or Business/);
  }
});

test('a wrong name or role is reported at its field, and hostile names are shown as text', async () => {
  await using berth = await shared();
  using admin = await signedIn(place(berth), berth.accountId);
  for (const [fields, message] of [
    [{ name: ' ', role: 'member' }, /Enter a name\./],
    [{ name: 'x'.repeat(101), role: 'member' }, /Use at most 100 characters\./],
    [{ name: 'a\u0007b', role: 'member' }, /The name contains a character that cannot be stored\./],
    [{ name: 'x', role: 'owner' }, /Choose one of the roles/],
    [{}, /Enter a name\./],
  ] as const) {
    const answer = await admin.post(PATH, fields);
    assert.equal(answer.status, 422);
    assert.match(answer.text, message);
  }
  const shown = await admin.submit(PATH, { name: '<script>\u202egpj', role: 'member' });
  assert.match(shown.text, /&lt;script&gt;<span class="hidden-character">U\+202E<\/span>gpj/);
  assert.doesNotMatch(shown.text, /<script>[^<]/);
});

test('many keys page by page, each once', async () => {
  await using berth = await shared();
  await withDatabase(berth, async ({ db }) => {
    const row = { account_id: berth.accountId, role: 'member', last_used_at: null, revoked_at: null } as const;
    const rows = Array.from({ length: 149 }, (_, i) => ({
      ...row,
      id: `k${i}`,
      name: `number ${i};`,
      hash: `h${i}`,
      inserted_at: Math.floor(i / 3),
    }));
    await db.insertInto('api_keys').values(rows).execute();
  });
  using admin = await signedIn(place(berth), berth.accountId);
  const seen: string[] = [];
  let next: string | undefined = PATH;
  while (next !== undefined) {
    const { text } = await admin.get(next);
    seen.push(...[...text.matchAll(/<bdi>number (\d+);/g)].map(([, number = '']) => number));
    next = /href="([^"]*\?after=[^"]*)"/.exec(text)?.[1];
  }
  assert.equal(seen.length, 149);
  assert.equal(new Set(seen).size, 149);
});

test('the audit has keys of the command line too, by their operator; their names follow the same rules', async () => {
  using files = scratch({ SUDO_USER: 'olga' });
  const berth = async (...args: string[]) => {
    const { status, stdout, stderr } = await runHere(files.environment, ...args, '--json');
    return {
      status,
      stderr,
      json: (stdout === '' ? [] : JSON.parse(stdout)) as Record<string, unknown>[] & Record<string, unknown>,
    };
  };
  const account = String((await berth('account', 'create', 'Acme', '--plan', 'free')).json['id']);
  const { json: key } = await berth('key', 'create', account, '--role', 'member', '--name', 'import');
  await berth('key', 'revoke', String(key['id']));
  await berth('key', 'revoke', String(key['id']));
  const { json: rows } = await berth('audit', '--account', account);
  assert.deepEqual(
    rows.map(({ action, key_id, route }) => [action, key_id, route]),
    [
      ['create-key', 'operator:olga', 'berth key create'],
      ['revoke-key', 'operator:olga', 'berth key revoke'],
    ],
  );
  const [, revoked] = rows;
  assert.deepEqual(revoked?.['changes'], {
    key: { from: key['id'], to: null },
    name: { from: 'import', to: null },
    role: { from: 'member', to: null },
  });
  const blank = await berth('key', 'create', account, '--name', ' ');
  assert.deepEqual([blank.status, blank.stderr], [1, "berth: name can't be blank\n"]);
});

test('a key is limited to reading, to directories and to a time, in the browser and on the command line alike', async () => {
  await using berth = await shared();
  const [mine, other] = [await berth.directory(), await berth.directory({ name: 'Hidden' })];
  using admin = await signedIn(place(berth), berth.accountId);
  const limits = { access: 'reads', directories: `${mine.username}\r\n`, expires_at: '2030-01-02T03:04' };
  const page = await admin.submit(PATH, { name: 'narrow', role: 'member', ...limits });
  const [, made = ''] = /data-secret="api-key"[^>]*>([^<]+)</.exec(page.text) ?? [];
  assert.match(page.text, new RegExp(`narrow.*read only, ${mine.username}.*expires`, 's'));
  const wrong = await admin.post(PATH, {
    name: 'x',
    role: 'member',
    directories: 'nobody',
    expires_at: '2020-01-01T00:00',
  });
  assert.match(wrong.text, /Choose a time in the future\./);
  const unknown = await admin.post(PATH, { name: 'x', role: 'member', directories: 'nobody' });
  assert.match(unknown.text, /&quot;nobody&quot; is not the SFTP username of one of your directories\./);

  const options = ['--role', 'member', '--read-only', '--directory', mine.username, '--expires', '2030-01-02T03:04Z'];
  const { stdout } = await runHere(berth.place.environment, 'key', 'create', berth.accountId, ...options, '--json');
  const { key } = JSON.parse(stdout) as { key: string };
  for (const each of [made, key]) {
    using client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key: each });
    const seen = await client.send('GET', '/directories');
    assert.ok(seen.text.includes(mine.id) && !seen.text.includes(other.id), seen.text);
    assert.equal((await client.send('GET', `/directories/${other.id}`)).status, 404);
    assert.equal((await client.send('DELETE', `/directories/${mine.id}`)).status, 403);
  }
  const list = await runHere(berth.place.environment, 'key', 'list', berth.accountId);
  assert.equal(list.stdout.match(/2030-01-02.*read-only, 1 directory/g)?.length, 2, list.stdout);
  const keys = await withDatabase(berth, ({ db }) =>
    db.selectFrom('api_keys').selectAll().where('account_id', '=', berth.accountId).execute(),
  );
  const limited = keys.filter(({ read_only }) => read_only === 1);
  assert.equal(limited.length, 2);
  assert.deepEqual(
    limited.map(({ directories, expires_at }) => [directories, expires_at]),
    limited.map(() => [JSON.stringify([mine.id]), Date.parse('2030-01-02T03:04Z') * 1000]),
  );
});

/** /directories/:id/public_keys: several keys, and how the specification's `public_key` goes with them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, TIMESTAMP } from '../support/field-sets.ts';
import { sharedHosted } from '../support/hosted.ts';
import { madeKeys } from '../support/made-keys.ts';
import { systemError } from '../support/recording-host.ts';

const shared = sharedHosted();

interface Key {
  readonly fingerprint: string;
  readonly type: string;
  readonly comment: string | null;
  readonly inserted_at: string;
  readonly last_used_at: string | null;
}

/** An API with a directory, for reading and changing its keys. */
async function place() {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const path = `/directories/${id}/public_keys`;
  return {
    api,
    id,
    path,
    add: (public_key: unknown, send = api.send) => send('POST', path, { json: { public_key } }),
    remove: (fingerprint: string, send = api.send) => send('DELETE', `${path}/${encodeURIComponent(fingerprint)}`),
    change: (directory: object) => api.send('PATCH', `/directories/${id}`, { json: { directory } }),
    list: async () => dataOf<Key[]>(await api.send('GET', path)),
    served: () => api.host.served.get(sftp_username)?.public_key ?? null,
    newest: async () => dataOf(await api.send('GET', `/directories/${id}`))['public_key_fingerprint'],
  };
}

const prints = (keys: readonly { fingerprint: string }[]): string[] => keys.map(({ fingerprint }) => fingerprint);

test('keys are added beside each other, newest first, and the host has them all; a comment is shown and never served', async () => {
  const here = await place();
  const [first, second, third] = madeKeys(3);
  assert.deepEqual(await here.list(), []);
  const answer = await here.add(`${first.line} me@here, "quoted" `);
  assert.equal(answer.status, 201);
  const { inserted_at, ...shown } = dataOf<Key>(answer);
  assert.match(inserted_at, TIMESTAMP);
  assert.deepEqual(shown, {
    fingerprint: first.fingerprint,
    type: 'ssh-ed25519',
    comment: 'me@here, "quoted"',
    last_used_at: null,
  });
  for (const { line } of [second, third]) assert.equal((await here.add(line)).status, 201);
  const keys = await here.list();
  assert.deepEqual(prints(keys), prints([third, second, first]));
  assert.deepEqual([keys[2]?.comment, keys[1]?.comment], ['me@here, "quoted"', null]);
  assert.deepEqual(Object.keys(keys[0] ?? {}), ['fingerprint', 'type', 'comment', 'inserted_at', 'last_used_at']);
  assert.equal(here.served(), [third, second, first].map(({ line }) => line).join('\n'));
  assert.equal(await here.newest(), third.fingerprint);
});

test('one key goes by its fingerprint, however that is written; the next newest takes its place', async () => {
  const here = await place();
  const keys = madeKeys(40);
  for (const { line } of keys) await here.add(line);
  const left = keys.toReversed();
  const ways: ((fingerprint: string) => string)[] = [
    encodeURIComponent,
    (print) => print, // `/` and `+` as they are
    (print) => encodeURI(print),
    (print) => encodeURIComponent(print.replace('SHA256:', '')),
    (print) => print.replaceAll('+', '-').replaceAll('/', '_'),
  ];
  assert.ok(prints(keys).some((print) => print.includes('/')) && prints(keys).some((print) => print.includes('+')));
  for (const [index, { fingerprint }] of [...left].entries()) {
    const answer = await here.api.send('DELETE', `${here.path}/${ways[index % ways.length]?.(fingerprint)}`);
    assert.deepEqual([answer.status, answer.text], [204, ''], fingerprint);
    left.shift();
    assert.equal(await here.newest(), left[0]?.fingerprint ?? null);
    assert.equal(here.served(), left.length > 0 ? left.map(({ line }) => line).join('\n') : null);
  }
  assert.deepEqual(await here.list(), []);
});

test('404 for a key that is not there, whatever its name; the others stay', async () => {
  const here = await place();
  const [key, other] = madeKeys(2);
  await here.add(key.line);
  const names = [other.fingerprint, 'SHA256:', '%', '%zz', '%00', '..', '%2e%2e', 'x'.repeat(3000), key.line];
  for (const name of [...names, `${key.fingerprint}=`, key.fingerprint.toLowerCase(), `${key.fingerprint}/`]) {
    const answer = await here.api.send('DELETE', `${here.path}/${encodeURIComponent(name)}`);
    assert.equal(answer.status, 404, name);
  }
  const { status, json } = await here.remove(other.fingerprint);
  assert.deepEqual([status, json], [404, { error: 'Public key not found' }]);
  assert.deepEqual(prints(await here.list()), [key.fingerprint]);
});

test('422 for an unusable key, a key that exists already, and one key too many', async () => {
  const here = await place();
  const keys = madeKeys(101);
  const errors = async (public_key: unknown) => {
    const { status, json } = await here.add(public_key);
    assert.equal(status, 422);
    return (json as { errors: { public_key: string[] } }).errors.public_key;
  };
  assert.deepEqual(await errors(undefined), ["can't be blank"]);
  assert.deepEqual(await errors(null), ["can't be blank"]);
  assert.deepEqual(await errors(' '), ["can't be blank"]);
  assert.deepEqual(await errors(1), ['is invalid']);
  assert.deepEqual(await errors('ssh-ed25519 AAAA'), [
    'is not a valid OpenSSH public key: it should be one line such as ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH… name',
  ]);
  for (const { line } of keys.slice(0, 100)) assert.equal((await here.add(line)).status, 201);
  assert.deepEqual(await errors(keys[100]?.line), ['should have at most 100 item(s)']);
  assert.deepEqual(await errors(`${keys[0].line} another comment`), ['has already been taken']);
  assert.equal((await here.list()).length, 100);
});

test('PATCH with public_key replaces them all by one, DELETE removes all; a key that stays keeps what is known of it', async () => {
  const here = await place();
  const [first, second, third] = madeKeys(3);
  for (const { line } of [first, second, third]) await here.add(`${line} mine`);
  const stayed = (await here.list()).find(({ fingerprint }) => fingerprint === second.fingerprint);
  const changed = dataOf(await here.change({ public_key: second.line }));
  assert.equal(changed['public_key_fingerprint'], second.fingerprint);
  assert.deepEqual(await here.list(), [stayed]);
  const again = dataOf(await here.change({ public_key: second.line }));
  assert.equal(again['updated_at'], changed['updated_at'], 'nothing changed');
  await here.change({ public_key: `${third.line} theirs` });
  assert.deepEqual(
    (await here.list()).map(({ fingerprint, comment }) => [fingerprint, comment]),
    [[third.fingerprint, 'theirs']],
  );
  await here.add(first.line);
  const answer = await here.api.send('DELETE', `/directories/${here.id}/public_key`);
  assert.equal(dataOf(answer)['public_key_fingerprint'], null);
  assert.deepEqual([await here.list(), here.served()], [[], null]);
});

test('warnings: a key that the mode ignores, and a last key whose mode knows nothing else', async () => {
  const here = await place();
  const [first, second] = madeKeys(2);
  const unused = '299 - "auth_mode is password: keys are not used until the mode allows them"';
  assert.equal((await here.add(first.line)).headers['warning'], unused);
  await here.change({ auth_mode: 'public_key' });
  assert.equal((await here.add(second.line)).headers['warning'], undefined);
  assert.equal((await here.remove(first.fingerprint)).headers['warning'], undefined);
  const last = await here.remove(second.fingerprint);
  assert.equal(
    last.headers['warning'],
    '299 - "auth_mode is public_key and no public_key is stored: nobody can log in"',
  );
});

test('keys added and removed at the same time count once each, and rows, column and host agree', async () => {
  const here = await place();
  const keys = madeKeys(12);
  const same = await Promise.all(Array.from({ length: 6 }, () => here.add(keys[0].line)));
  assert.deepEqual(same.map(({ status }) => String(status)).sort(), ['201', ...Array<string>(5).fill('422')]);
  await Promise.all([
    ...keys.slice(1).map(({ line }) => here.add(line)),
    here.remove(keys[0].fingerprint),
    here.remove(keys[0].fingerprint),
  ]);
  const listed = prints(await here.list());
  assert.deepEqual(listed.toSorted(), prints(keys.slice(1)).toSorted());
  assert.equal(await here.newest(), listed[0]);
  const lines = new Map(keys.map(({ fingerprint, line }) => [fingerprint, line]));
  assert.equal(here.served(), listed.map((print) => lines.get(print)).join('\n'));
});

test('the audit says which keys came and went', async () => {
  const here = await place();
  const [first, second] = madeKeys(2);
  await here.add(first.line);
  await here.add(second.line);
  await here.remove(first.fingerprint);
  const [, ...rows] = await here.api.audit();
  const [one, two] = [first.fingerprint, second.fingerprint];
  assert.deepEqual(
    rows.map(({ changes }) => JSON.parse(changes) as unknown),
    [
      { public_key: {}, public_key_fingerprint: { from: null, to: one } },
      { public_key: { from: [], to: [two] }, public_key_fingerprint: { from: one, to: two } },
      { public_key: { from: [one], to: [] } },
    ],
  );
});

test('507 on a full disk: a removal shuts the directory out first and is repeated; it counts once there is room', async () => {
  const here = await place();
  const [first, second] = madeKeys(2);
  for (const { line } of [first, second]) await here.add(line);
  here.api.host.fail(systemError('ENOSPC'));
  const answer = await here.remove(first.fingerprint);
  assert.deepEqual([answer.status, answer.json], [507, { error: 'Not enough storage space' }]);
  assert.ok(here.api.host.calls.some((call) => call.startsWith('block logins of ')));
  here.api.host.fail(undefined);
  assert.deepEqual(prints(await here.list()), [second.fingerprint]);
});

test('a key that was added but did not reach the disk: the same request, repeated, adds it and gets 201', async () => {
  for (const headers of [{}, { 'idempotency-key': 'again' }]) {
    const here = await place();
    const [first, second] = madeKeys(2);
    await here.add(first.line);
    const add = () => here.api.send('POST', here.path, { json: { public_key: second.line }, headers });
    here.api.host.fail(systemError('ENOSPC'));
    for (let time = 1; time <= 2; time += 1) assert.equal((await add()).status, 507);
    const [added] = await here.list();
    here.api.host.fail(undefined);
    const answer = await add();
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(dataOf(answer), added);
    assert.equal(here.served(), [second, first].map(({ line }) => line).join('\n'));
    const again = await add();
    assert.equal(again.status, 'idempotency-key' in headers ? 201 : 422, 'it is there, and works');
    if (again.status === 201) assert.equal(again.text, answer.text);
    assert.equal((await here.list()).length, 2);
  }
});

test('a key reached the disk after its request had got 507: repeated with its Idempotency-Key, the request gets 201', async () => {
  const here = await place();
  const [key] = madeKeys(1);
  const headers = { 'idempotency-key': 'again' };
  const add = () => here.api.send('POST', here.path, { json: { public_key: key.line }, headers });
  here.api.host.fail(systemError('ENOSPC'));
  assert.equal((await add()).status, 507);
  here.api.host.fail(undefined);
  const row = await here.api.database.db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', here.id)
    .executeTakeFirstOrThrow();
  await here.api.host.apply(row);
  await here.api.database.db.deleteFrom('unapplied').where('directory_id', '=', here.id).execute();
  const answer = await add();
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual([dataOf(answer)], await here.list());
});

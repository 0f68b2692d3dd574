/** POST /api/v1/directories */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verify } from 'unixcrypt';
import { dataOf, FULL_FIELDS, TIMESTAMP, UUID } from '../support/field-sets.ts';
import { hosted, sharedHosted } from '../support/hosted.ts';
import { systemError } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';

const shared = sharedHosted();

test('201: a name is enough, and everything else has its default', async () => {
  const api = await shared();
  const answer = await api.send('POST', '/directories', { json: { directory: { name: 'Acme Corp' } } });
  assert.equal(answer.status, 201);
  const made = dataOf(answer);
  assert.deepEqual(Object.keys(made).sort(), [...FULL_FIELDS, 'sftp_password'].sort());
  assert.equal(Object.keys(made).length, 19);
  const { id, sftp_username, sftp_password, webhook_secret, inserted_at, updated_at, ...rest } = made;
  assert.match(String(id), UUID);
  assert.match(String(sftp_username), /^acme-corp-[a-z0-9]{8}$/);
  assert.match(String(sftp_password), /^[A-Za-z0-9]{32}$/);
  assert.match(String(webhook_secret), /^[A-Za-z0-9+/]{32}$/, '24 bytes in standard base64');
  assert.match(String(inserted_at), TIMESTAMP);
  assert.equal(updated_at, inserted_at);
  assert.deepEqual(rest, {
    name: 'Acme Corp',
    description: null,
    slug: 'acme-corp',
    external_id: null,
    metadata: {},
    sftp_host: 'sftp.example.com',
    sftp_port: 2222,
    webhook_url: null,
    max_connections: 10,
    storage_bytes: 0,
    retention_days: 0,
    auth_mode: 'password',
    public_key_fingerprint: null,
  });
  assert.equal(answer.headers.location, `/api/v1/directories/${String(id)}`);
  const live = api.host.served.get(String(sftp_username));
  assert.ok(live && verify(String(sftp_password), live.password_hash), 'the host has the hash of that password');
});

test('201: every parameter is stored as given, numbers of metadata to the last digit', async () => {
  const api = await shared();
  const metadata = '{"n":12345678901234567890,"x":1.0,"y":1e400,"deep":{"a":[1,null,"ü\\u0000"]},"__proto__":{"b":2}}';
  const body = `{"directory":{"name":"A","description":"d","external_id":"order-7","metadata":${metadata},"max_connections":1000,"retention_days":36500}}`;
  const answer = await api.send('POST', '/directories', { body, headers: { 'content-type': 'application/json' } });
  assert.equal(answer.status, 201);
  assert.ok(answer.text.includes(`"metadata":${metadata}`), answer.text);
  const { description, external_id, max_connections, retention_days, id } = dataOf(answer);
  assert.deepEqual(
    { description, external_id, max_connections, retention_days },
    { description: 'd', external_id: 'order-7', max_connections: 1000, retention_days: 36_500 },
  );
  const shown = await api.send('GET', `/directories/${String(id)}`);
  assert.ok(shown.text.includes(`"metadata":${metadata}`), 'also when it is fetched');
});

test('201: webhook_url, slug and other fields of the service are ignored, nulls clear', async () => {
  const api = await shared();
  const made = await api.directory({
    webhook_url: 'https://example.com/',
    slug: 'mine',
    sftp_password: 'mine',
    auth_mode: 'both',
    id: 'mine',
    description: null,
    external_id: null,
    metadata: null,
  });
  assert.equal(made['webhook_url'], null);
  assert.equal(made['slug'], 'acme-corp');
  assert.equal(made['auth_mode'], 'password');
  assert.match(made.id, UUID);
  assert.deepEqual(made['metadata'], {});
});

test('201: whole numbers as Gson and PHP write them; metadata keeps its text', async () => {
  const api = await shared();
  const create = async (number: string): Promise<unknown> => {
    const body = `{"directory":{"name":"a","max_connections":${number},"metadata":{"n":${number}}}}`;
    const { status, text, json } = await api.send('POST', '/directories', {
      body,
      headers: { 'content-type': 'application/json' },
    });
    if (status !== 201) return json;
    assert.ok(text.includes(`"metadata":{"n":${number}}`), text);
    return (json as { data: { max_connections: number } }).data.max_connections;
  };
  for (const [number, value] of Object.entries({
    '5.0': 5,
    '5e0': 5,
    '0.5E1': 5,
    '50.00e-1': 5,
    '1.0E+3': 1000,
    '5.1': 'is invalid',
    '5.00000000000000000001': 'is invalid',
    '5e-1': 'is invalid',
    '1e400': 'is invalid',
    '1e-400': 'is invalid',
    '12345678901234567890': 'is invalid',
    '1.001e3': 'must be less than or equal to 1000',
    '-0.0': 'must be greater than or equal to 1',
  }))
    assert.deepEqual(
      await create(number),
      typeof value === 'number' ? value : { errors: { max_connections: [value] } },
      number,
    );
});

test('201: limits are inclusive and count characters, not code units', async () => {
  const api = await shared();
  const made = await api.directory({
    name: '😀'.repeat(100),
    description: 'é'.repeat(2000),
    external_id: 'x'.repeat(255),
    metadata: { a: 'x'.repeat(16_384 - '{"a":""}'.length) },
    max_connections: 1,
  });
  assert.equal(made['name'], '😀'.repeat(100));
});

test('422: each field says what is wrong with it', async () => {
  const api = await shared();
  const cases: [object, object][] = [
    [{}, { name: ["can't be blank"] }],
    [{ name: '' }, { name: ["can't be blank"] }],
    [{ name: ' \t\n' }, { name: ["can't be blank"] }],
    [{ name: null }, { name: ["can't be blank"] }],
    [{ name: 7 }, { name: ['is invalid'] }],
    [{ name: 'a\0b' }, { name: ['is invalid'] }],
    [{ name: '\ud800' }, { name: ['is invalid'] }],
    [{ name: 'a\x1b[2Jb' }, { name: ['is invalid'] }],
    [{ name: 'a\nb' }, { name: ['is invalid'] }],
    [{ name: 'a', external_id: 'a\nb' }, { external_id: ['is invalid'] }],
    [{ name: 'a', external_id: '\x9b' }, { external_id: ['is invalid'] }],
    [{ name: 'a', description: 'a\x1b[2Jb' }, { description: ['is invalid'] }],
    [{ name: 'x'.repeat(101) }, { name: ['should be at most 100 character(s)'] }],
    [{ name: 'a', description: 'x'.repeat(2001) }, { description: ['should be at most 2000 character(s)'] }],
    [{ name: 'a', description: ['x'] }, { description: ['is invalid'] }],
    [{ name: 'a', external_id: 'x'.repeat(256) }, { external_id: ['should be at most 255 character(s)'] }],
    [{ name: 'a', external_id: 7 }, { external_id: ['is invalid'] }],
    [{ name: 'a', metadata: [] }, { metadata: ['is invalid'] }],
    [{ name: 'a', metadata: 'x' }, { metadata: ['is invalid'] }],
    [{ name: 'a', metadata: { a: 'x'.repeat(16_377) } }, { metadata: ['should be at most 16384 byte(s)'] }],
    [{ name: 'a', max_connections: 0 }, { max_connections: ['must be greater than or equal to 1'] }],
    [{ name: 'a', max_connections: 1001 }, { max_connections: ['must be less than or equal to 1000'] }],
    [{ name: 'a', max_connections: 1.5 }, { max_connections: ['is invalid'] }],
    [{ name: 'a', max_connections: '5' }, { max_connections: ['is invalid'] }],
    [{ name: 'a', max_connections: null }, { max_connections: ["can't be blank"] }],
    [{ name: 'a', retention_days: -1 }, { retention_days: ['must be greater than or equal to 0'] }],
    [{ name: 'a', retention_days: 36_501 }, { retention_days: ['must be less than or equal to 36500'] }],
    [
      { name: '', max_connections: 0 },
      { name: ["can't be blank"], max_connections: ['must be greater than or equal to 1'] },
    ],
  ];
  for (const [directory, errors] of cases) {
    const answer = await api.send('POST', '/directories', { json: { directory } });
    assert.deepEqual([answer.status, answer.json], [422, { errors }], JSON.stringify(directory).slice(0, 60));
  }
  for (const json of [{}, [], { directory: null }, 7]) {
    const answer = await api.send('POST', '/directories', { json });
    assert.deepEqual([answer.status, answer.json], [422, { errors: { directory: ["can't be blank"] } }]);
  }
  const answer = await api.send('POST', '/directories', { json: { directory: 'x' } });
  assert.deepEqual([answer.status, answer.json], [422, { errors: { directory: ['is invalid'] } }]);
  assert.deepEqual(api.host.calls, [], 'nothing was made');
});

test('422: simultaneous creates cannot pass the limit of the plan', async () => {
  const api = await shared();
  const pro = await api.account('pro');
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) => pro.send('POST', '/directories', { json: { directory: { name: `n${i}` } } })),
  );
  const refused = answers.filter(({ status }) => status === 422);
  assert.equal(answers.filter(({ status }) => status === 201).length, 25);
  assert.equal(refused.length, 5);
  for (const { json } of refused) assert.deepEqual(json, { error: 'Directory limit reached for your plan' });
  assert.equal(dataOf<unknown[]>(await pro.send('GET', '/directories')).length, 25);

  const [first] = dataOf<{ id: string }[]>(await pro.send('GET', '/directories'));
  await pro.send('DELETE', `/directories/${first?.id}`);
  await api.directory({}, pro.send);
  for (let i = 0; i < 27; i += 1) await api.directory();
});

test('507: a full disk leaves nothing behind, and room makes it work again', async () => {
  using place = scratch();
  await using api = await hosted(place);
  for (const code of ['ENOSPC', 'EDQUOT']) {
    api.host.fail(systemError(code));
    const answer = await api.send('POST', '/directories', { json: { directory: { name: 'Full' } } });
    assert.deepEqual([answer.status, answer.json], [507, { error: 'Not enough storage space' }]);
  }
  await api.rules.removal.idle();
  assert.equal(api.host.calls.filter((call) => call.startsWith('remove full-')).length, 2);
  assert.deepEqual(dataOf(await api.send('GET', '/directories')), []);
  for (const table of ['directories', 'unapplied'] as const) {
    assert.deepEqual(await api.database.db.selectFrom(table).selectAll().execute(), [], table);
  }
  api.host.fail(undefined);
  await api.directory();
  const principals = await api.database.db.selectFrom('principals').selectAll().orderBy('uid').execute();
  assert.deepEqual(
    principals.map(({ uid }) => uid - 1_879_048_192),
    [0, 1, 2],
    'no UID is used twice',
  );
});

test('500: another failure of the host leaves nothing behind and tells the caller only an id', async () => {
  const api = await shared();
  api.host.fail(new Error('secret detail'));
  const answer = await api.send('POST', '/directories', { json: { directory: { name: 'Broken' } } });
  assert.deepEqual([answer.status, answer.json], [500, { error: 'Internal server error' }]);
  const id = String(answer.headers['x-request-id']);
  assert.ok(api.log.some((line) => line.includes(id) && line.includes('secret detail')));
  assert.deepEqual(dataOf(await api.send('GET', '/directories')), []);
});

/** GET and PATCH /directories/:id/access: suspension, expiry and networks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../src/foundation/base/problems.ts';
import { dataOf } from '../support/field-sets.ts';
import { sharedHosted } from '../support/hosted.ts';
import { systemError } from '../support/recording-host.ts';

const NO_TIME = messageOf(['not_a_time']);

const shared = sharedHosted();

const OPEN = { suspended: false, expires_at: null, allowed_networks: [] };

interface Access {
  readonly suspended: boolean;
  readonly expires_at: string | null;
  readonly allowed_networks: readonly string[];
}

const accessOf = (answer: { readonly json: unknown }): Access => dataOf<Access>(answer);

/** An API with a directory, for reading and changing its access. */
async function place() {
  const api = await shared();
  const { id, sftp_username } = await api.directory();
  const path = `/directories/${id}/access`;
  return {
    api,
    path,
    username: sftp_username,
    change: (access: unknown, send = api.send) => send('PATCH', path, { json: access }),
    show: async () => accessOf(await api.send('GET', path)),
    served: () => api.host.served.get(sftp_username),
  };
}

test('a new directory is open; each field is set alone and the others stay', async () => {
  const here = await place();
  assert.deepEqual(await here.show(), OPEN);
  const changes = [
    [{ suspended: true }, { suspended: true }],
    [{ expires_at: '2099-01-01T01:00:00+01:00' }, { expires_at: '2099-01-01T00:00:00.000000Z' }],
    [{ allowed_networks: ['10.0.0.0/8'] }, { allowed_networks: ['10.0.0.0/8'] }],
    [{ suspended: false }, { suspended: false }],
    [{}, {}],
    [
      { expires_at: null, allowed_networks: [] },
      { expires_at: null, allowed_networks: [] },
    ],
  ] as const;
  let expected: object = OPEN;
  for (const [sent, set] of changes) {
    expected = { ...expected, ...set };
    const answer = await here.change(sent);
    assert.equal(answer.status, 200);
    assert.deepEqual([accessOf(answer), await here.show()], [expected, expected]);
  }
  const { suspended, expires_at, allowed_networks } = here.served() ?? {};
  assert.deepEqual(
    { suspended, expires_at, allowed_networks },
    { suspended: 0, expires_at: null, allowed_networks: '[]' },
  );
});

test('networks come back in one spelling, each once', async () => {
  const here = await place();
  const spellings = [
    ['203.0.113.7', '203.0.113.7/32'],
    ['203.0.113.7/32', '203.0.113.7/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8::/32', '2001:db8::/32'],
    ['2001:0db8:0:0:0:0:0:0/32', '2001:db8::/32'],
    ['::1', '::1/128'],
    ['::/0', '::/0'],
    ['::ffff:203.0.113.0/120', '203.0.113.0/24'],
    ['::FFFF:cb00:7107', '203.0.113.7/32'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
    ['::ffff:0:0/95', '::fffe:0:0/95'],
  ] as const;
  for (const [sent, stored] of spellings) {
    const answer = await here.change({ allowed_networks: [sent, sent] });
    if (sent === '::ffff:0:0/95') assert.equal(answer.status, 422);
    else assert.deepEqual([answer.status, accessOf(answer).allowed_networks], [200, [stored]]);
  }
  const all = Array.from({ length: 100 }, (_, index) => `10.0.${index}.0/24`);
  assert.deepEqual(accessOf(await here.change({ allowed_networks: all })).allowed_networks, all);
});

test('422 for values that are not a boolean, a time or a network; nothing changes', async () => {
  const here = await place();
  const long = 'x'.repeat(60);
  const cases: [object, object][] = [
    [{ suspended: 'true' }, { suspended: ['is invalid'] }],
    [{ suspended: null }, { suspended: ["can't be blank"] }],
    [{ suspended: 1 }, { suspended: ['is invalid'] }],
    ...['tomorrow', '', '2027-01-01', '2027-01-01T00:00:00', '2027-13-01T00:00:00Z', '9999-01-01T00:00:00Z', 1, {}].map(
      (expires_at): [object, object] => [{ expires_at }, { expires_at: [NO_TIME] }],
    ),
    // Days that do not exist. `Date` takes them for days of the next month.
    ...['2027-02-29T00:00:00Z', '2028-02-30T23:59:59+01:00', '2027-04-31T12:00:00.5Z'].map(
      (expires_at): [object, object] => [{ expires_at }, { expires_at: [NO_TIME] }],
    ),
    ...['10.0.0.0/8', {}, [1], [null], [['10.0.0.0/8']]].map((allowed_networks): [object, object] => [
      { allowed_networks },
      { allowed_networks: ['is invalid'] },
    ]),
    [{ allowed_networks: null }, { allowed_networks: ["can't be blank"] }],
    ...[
      '',
      ' 10.0.0.0/8',
      '10.0.0.0/33',
      '::/129',
      '10.0.0.0/',
      '10.0.0.0/08',
      '10.0.0.0/-1',
      '10.0.0/8',
      '010.0.0.0/8',
      '0xa.0.0.0/8',
      'fe80::1%eth0',
      'example.com',
      '*',
      '1.2.3.4/8/8',
      '::ffff:1.2.3.4/129',
    ].map((text): [object, object] => [
      { allowed_networks: [text] },
      { allowed_networks: [`${text === '' ? 'an empty text' : text} is invalid`] },
    ]),
    [{ allowed_networks: [long] }, { allowed_networks: ['a network is invalid'] }],
    [{ allowed_networks: ['', ' '] }, { allowed_networks: ['an empty text is invalid', 'an empty text is invalid'] }],
    [
      { allowed_networks: ['10.1.2.3/8', '2001:db8::1/32', '::ffff:10.1.2.3/104'] },
      {
        allowed_networks: [
          '10.1.2.3/8 has host bits set: its network is 10.0.0.0/8',
          '2001:db8::1/32 has host bits set: its network is 2001:db8::/32',
          '::ffff:10.1.2.3/104 has host bits set: its network is 10.0.0.0/8',
        ],
      },
    ],
    [
      { allowed_networks: Array.from({ length: 101 }, () => '10.0.0.0/8') },
      { allowed_networks: ['should have at most 100 item(s)'] },
    ],
    [
      { suspended: 7, expires_at: 'x' },
      { suspended: ['is invalid'], expires_at: [NO_TIME] },
    ],
  ];
  for (const [access, errors] of cases) {
    const answer = await here.change(access);
    assert.deepEqual([answer.status, answer.json], [422, { errors }], JSON.stringify(access));
  }
  assert.deepEqual(await here.show(), OPEN);
});

test('a warning of an expiry that has passed; then the sessions end before the answer', async () => {
  const here = await place();
  const passed = await here.change({ expires_at: '2020-01-01T00:00:00Z' });
  assert.equal(passed.headers['warning'], '299 - "expires_at has passed: nobody can log in"');
  assert.equal(here.api.host.calls.at(-1), `end sessions ${here.username}`);
  assert.equal((await here.change({ expires_at: '2099-01-01T00:00:00Z' })).headers['warning'], undefined);
});

test('the specification’s fields do not show it, and updated_at moves with it', async () => {
  const here = await place();
  const path = here.path.replace('/access', '');
  const before = dataOf(await here.api.send('GET', path));
  await here.change({ suspended: true });
  const after = dataOf(await here.api.send('GET', path));
  assert.deepEqual(Object.keys(after), Object.keys(before));
  assert.ok(String(after['updated_at']) > String(before['updated_at']));
  await here.change({ suspended: true });
  assert.deepEqual(dataOf(await here.api.send('GET', path)), after, 'repeated, it changes nothing');
});

test('the audit shows what was set, as the API does', async () => {
  const here = await place();
  await here.change({ suspended: true, expires_at: '2099-01-01T00:00:00Z', allowed_networks: ['10.0.0.0/8'] });
  const [, ...rows] = await here.api.audit();
  assert.deepEqual(
    rows.map(({ changes }) => JSON.parse(changes) as unknown),
    [
      {
        suspended: { from: false, to: true },
        expires_at: { from: null, to: '2099-01-01T00:00:00.000000Z' },
        allowed_networks: { from: [], to: ['10.0.0.0/8'] },
      },
    ],
  );
});

test('507 on a full disk: its logins are blocked first, whatever comes of it', async () => {
  const here = await place();
  here.api.host.fail(systemError('ENOSPC'));
  const { status, json } = await here.change({ suspended: true });
  assert.deepEqual([status, json], [507, { error: 'Not enough storage space' }]);
  assert.ok(here.api.host.calls.includes(`block logins of ${here.username}`));
});

test('422 for a body that is no object, and for fields in an object of their own', async () => {
  const here = await place();
  const wrapped = await here.change({ access: { suspended: true } });
  assert.deepEqual([wrapped.status, wrapped.json], [422, { errors: { access: ['is unknown'] } }]);
  for (const body of [[], null, 'suspended', 5]) {
    const answer = await here.change(body);
    assert.deepEqual([answer.status, answer.json], [422, { errors: { body: ['is invalid'] } }], JSON.stringify(body));
  }
  assert.deepEqual(await here.show(), OPEN);
});

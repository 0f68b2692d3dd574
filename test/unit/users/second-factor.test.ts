/** Codes of the second factor by a clock that stands still: RFC 6238, each once, clocks apart, waits after wrong ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '../../../src/rules/accounts/accounts.ts';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { createPasswordHashing, createPasswords } from '../../../src/rules/users/passwords.ts';
import {
  createTries,
  keyUri,
  newSecret,
  setUpSecondFactor,
  signInWithCode,
} from '../../../src/rules/users/second-factor.ts';
import { openUserSession, sessionOf } from '../../../src/rules/users/sessions.ts';
import { createUser } from '../../../src/rules/users/users.ts';
import { copyEmptyDatabase } from '../../support/empty-database.ts';
import { scratch } from '../../support/scratch.ts';
import { setClock } from '../../support/set-clock.ts';
import { codeAt, operator } from '../../support/users.ts';

const STEP = 30_000_000;
const VISIT = { address: '192.0.2.1', agent: 'test' };

async function world() {
  const files = scratch();
  copyEmptyDatabase(files.config);
  const database = await openDatabase(files.config.database);
  const clock = setClock();
  const { id: accountId } = await createAccount({ database, clock }, { name: 'Test', plan: 'pro' });
  const target = operator(accountId);
  const waits = { now: 0 };
  const options = {
    database,
    clock,
    passwords: createPasswords(createPasswordHashing({ ln: 4, r: 8, p: 1 })),
    tries: createTries({ database, clock: { now: () => waits.now * 1000 } }),
  };
  const user = await createUser(options, target, { email: 'user@example.com', role: 'admin' });
  /** A session that awaits a code. */
  const halfway = async () => {
    const token = await database.db
      .transaction()
      .execute((tx) => openUserSession(tx, user.id, { now: clock.now(), visit: VISIT, awaitsCode: true }));
    const session = await sessionOf(options, token, VISIT);
    assert.ok(session?.awaitsCode);
    return session;
  };
  return {
    options,
    clock,
    waits,
    userId: user.id,
    halfway,
    /** Whether that code signs in: then the session awaits no further code. */
    async enters(code: string): Promise<boolean> {
      try {
        const token = await signInWithCode(options, await halfway(), { code, visit: VISIT });
        return (await sessionOf(options, token, VISIT))?.awaitsCode === false;
      } catch (error) {
        assert.match(String(error), /ValidationError: invalid: code/);
        return false;
      }
    },
    setUp: (secret: string) =>
      setUpSecondFactor(options, { ...target, userId: user.id }, { secret, code: codeAt(secret, clock.now()) }),
    /** That second factor, as if it had been set up long ago. */
    has: (secret: string) =>
      database.db.updateTable('users').set({ totp_secret: secret, totp_step: 0 }).where('id', '=', user.id).execute(),
    async [Symbol.asyncDispose]() {
      await database.close();
      files[Symbol.dispose]();
    },
  };
}

test('the codes are those of RFC 6238, appendix B', async () => {
  await using w = await world();
  await w.has('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ');
  const vectors = [
    [59, '287082'],
    [1_111_111_109, '081804'],
    [1_111_111_111, '050471'],
    [1_234_567_890, '005924'],
    [2_000_000_000, '279037'],
  ] as const;
  for (const [at, code] of vectors) {
    w.clock.advance(at * 1e6 - w.clock.now());
    await w.has('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ');
    assert.ok(await w.enters(code), `${at}`);
    assert.ok(!(await w.enters(code)), `${at} again`);
  }
});

test('a key has 160 bits, and the app gets it with its issuer and email', () => {
  const [one, other] = [newSecret(), newSecret()];
  assert.match(one, /^[A-Z2-7]{32}$/);
  assert.notEqual(one, other);
  const uri = new URL(keyUri(one, 'a&b@example.com'));
  assert.equal(uri.searchParams.get('secret'), one);
  assert.equal(uri.searchParams.get('issuer'), 'berth');
  assert.equal(decodeURIComponent(uri.pathname).endsWith('berth:a&b@example.com'), true);
});

test('a password that was right waits ten minutes for its code, and no longer', async () => {
  await using w = await world();
  const token = await w.options.database.db
    .transaction()
    .execute((tx) => openUserSession(tx, w.userId, { now: w.clock.now(), visit: VISIT, awaitsCode: true }));
  w.clock.advance(599e6);
  assert.ok(await sessionOf(w.options, token, VISIT));
  w.clock.advance(2e6);
  assert.equal(await sessionOf(w.options, token, VISIT), undefined);
});

test('clocks may be one step apart, either way, and a code that is older than the last is refused', async () => {
  await using w = await world();
  const secret = newSecret();
  for (const [steps, gets] of [
    [-2, false],
    [-1, true],
    [0, true],
    [1, true],
    [2, false],
  ] as const) {
    await w.has(secret);
    w.clock.advance(10 * STEP);
    assert.equal(await w.enters(codeAt(secret, w.clock.now() + steps * STEP)), gets, `${steps}`);
  }
  await w.has(secret);
  const [current, next] = [codeAt(secret, w.clock.now()), codeAt(secret, w.clock.now() + STEP)];
  assert.ok(await w.enters(next));
  assert.ok(!(await w.enters(current)));
});

test('a clock that was ahead and is set back keeps nobody out, and takes no code twice by that', async () => {
  await using w = await world();
  const secret = newSecret();
  await w.has(secret);
  w.clock.advance(2880 * STEP);
  assert.ok(await w.enters(codeAt(secret, w.clock.now())));
  w.clock.advance(-2880 * STEP);
  const code = codeAt(secret, w.clock.now());
  assert.ok(await w.enters(code));
  assert.ok(!(await w.enters(code)));
  assert.ok(await w.enters(codeAt(secret, w.clock.now() + STEP)));
  assert.ok(!(await w.enters(code)));
});

test('of two uses of one code at once, one signs in', async () => {
  await using w = await world();
  const secret = newSecret();
  const [recovery = ''] = await w.setUp(secret);
  w.clock.advance(STEP);
  for (const code of [codeAt(secret, w.clock.now()), recovery]) {
    const entered = await Promise.all(Array.from({ length: 4 }, () => w.enters(code)));
    assert.equal(entered.filter(Boolean).length, 1, code);
  }
});

test('a text that is not a code is refused', async () => {
  await using w = await world();
  await w.has(newSecret());
  const texts = [
    '',
    '12345',
    '1234567',
    'ééé123',
    '٠١٢٣٤٥',
    '💥💥💥',
    '1e5000',
    '-00001',
    'x'.repeat(60_000),
    '\0\0\0\0\0\0',
  ];
  for (const text of texts) {
    w.waits.now += 1e9;
    assert.ok(!(await w.enters(text)), text.slice(0, 20));
  }
});

test('a sign-in that has expired meanwhile signs nobody in, and does not use up the code', async () => {
  await using w = await world();
  const secret = newSecret();
  await w.setUp(secret);
  w.clock.advance(STEP);
  const session = await w.halfway();
  await w.options.database.db.deleteFrom('user_sessions').execute();
  const code = codeAt(secret, w.clock.now());
  await assert.rejects(signInWithCode(w.options, session, { code, visit: VISIT }), { code: 'not_authorized' });
  assert.equal((await w.options.database.db.selectFrom('user_sessions').selectAll().execute()).length, 0);
  assert.ok(await w.enters(code));
});

test('each wrong code makes the next one wait longer, up to an hour; a right one ends that', async () => {
  await using w = await world();
  const secret = newSecret();
  await w.setUp(secret);
  w.clock.advance(STEP);
  const right = codeAt(secret, w.clock.now());
  const wrong = right === '111111' ? '222222' : '111111';
  for (let i = 0; i < 5; i += 1) assert.ok(!(await w.enters(wrong)));
  for (const wait of [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]) {
    w.waits.now += wait * 1000 - 1;
    assert.ok(!(await w.enters(right)), 'not a moment before');
    w.waits.now += 1;
    assert.ok(!(await w.enters(wrong)));
  }
  w.waits.now += 3_600_000;
  assert.ok(await w.enters(right));
  w.clock.advance(STEP);
  for (let i = 0; i < 4; i += 1) assert.ok(!(await w.enters(wrong)));
  assert.ok(await w.enters(codeAt(secret, w.clock.now())), 'no wait yet');
});

test('a restart forgets no wrong code, and a clock that was set back keeps nobody out', async () => {
  await using w = await world();
  let now = 1e15;
  const tries = () => createTries({ database: w.options.database, clock: { now: () => now } });
  for (let i = 0; i < 5; i += 1) assert.equal(await tries().begin(w.userId), 0);
  assert.equal(await tries().begin(w.userId), 30e6);
  assert.equal(await tries().begin('nobody'), 0);
  now -= 1e13;
  assert.equal(await tries().begin(w.userId), 0);
  await tries().succeeded(w.userId);
  for (let i = 0; i < 5; i += 1) assert.equal(await tries().begin(w.userId), 0);
});

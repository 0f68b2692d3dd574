/** Passwords and guesses: equal work for every user, limits that lock nobody out, bounds on a flood. */
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { BerthError, ValidationError } from '../../../src/foundation/base/errors.ts';
import { createAddressLimit, createSteadyLimit } from '../../../src/interfaces/web/rate-limits.ts';
import { clientNetwork, clientSite } from '../../../src/interfaces/web/client-address.ts';
import {
  createHashingQueue,
  createPasswordHashing,
  createPasswords,
  type Origin,
  type PasswordHashing,
} from '../../../src/rules/users/passwords.ts';
import { sessionOf } from '../../../src/rules/users/sessions.ts';
import { setPasswordByLink } from '../../../src/rules/users/set-password.ts';
import { createUser, setDisabled } from '../../../src/rules/users/users.ts';
import { scratch } from '../../support/scratch.ts';
import { operator, PASSWORD } from '../../support/users.ts';
import { type UsersPlace, usersPlace } from '../../support/users-place.ts';
import { messageOf } from '../../../src/foundation/base/problems.ts';

import assert from 'node:assert/strict';
import { fc } from '../../support/fast-check.ts';

const HOME = '192.0.2.1';
const CHEAP = { ln: 4, r: 8, p: 1 };
const at = (address: string) => ({ address, agent: 'test' });
const isLimited = (error: unknown) => error instanceof BerthError && error.code === 'rate_limited';

async function userOf(place: UsersPlace, email: string): Promise<string> {
  const { id, token } = await createUser(place, operator(await place.account()), { email, role: 'member' });
  const request = { visit: at(HOME), requestId: 'test', route: 'test' };
  assert.ok(await setPasswordByLink(place, { token, password: PASSWORD }, request));
  return id;
}

/** Counts what is asked of it. */
function counting({ hash, matching }: PasswordHashing): PasswordHashing & { count: number } {
  const counted: PasswordHashing & { count: number } = {
    count: 0,
    hash,
    matching(password, hashes, from) {
      // One scrypt for each salt, and one where there is no hash.
      counted.count += Math.max(1, new Set(hashes.map((each) => each.split('$')[3])).size);
      return matching(password, hashes, from);
    },
  };
  return counted;
}

async function matches(hashing: PasswordHashing, password: string, hash?: string): Promise<boolean> {
  const [isRight = false] = await hashing.matching(password, hash === undefined ? [] : [hash]);
  return isRight;
}

/** A password from there. */
const from = (address: string, isKnown = false): Origin => ({
  network: clientNetwork(address),
  site: clientSite(address),
  isKnown,
});

test('each attempt costs one scrypt, for known and unknown users, and none takes notably longer', async () => {
  using files = scratch();
  const hashing = counting(createPasswordHashing({ ln: 13, r: 8, p: 1 }));
  await using place = await usersPlace(files, { hashing });
  await userOf(place, 'right@example.com');
  const disabled = await userOf(place, 'disabled@example.com');
  const { account_id } = await place.database.db
    .selectFrom('users')
    .select('account_id')
    .where('id', '=', disabled)
    .executeTakeFirstOrThrow();
  await setDisabled(place, { ...operator(account_id), userId: disabled }, true);
  await createUser(place, operator(account_id), { email: 'invited@example.com', role: 'member' });
  const attempts = {
    wrong: ['right@example.com', 'wrong horse battery'],
    disabled: ['disabled@example.com', PASSWORD],
    disabledAndWrong: ['disabled@example.com', 'wrong horse battery'],
    invited: ['invited@example.com', PASSWORD],
    unknown: ['nobody@example.com', PASSWORD],
    empty: ['', ''],
  } as const;
  const times = new Map<string, number[]>(Object.keys(attempts).map((name) => [name, []]));
  for (let round = 0; round < 15; round += 1) {
    for (const [name, [email, password]] of Object.entries(attempts)) {
      hashing.count = 0;
      const before = process.cpuUsage();
      assert.equal(await place.signIn({ email, password }, at(HOME)), undefined);
      const { user, system } = process.cpuUsage(before);
      times.get(name)?.push(user + system);
      assert.equal(hashing.count, 1, name);
    }
  }
  // Processor time: what others do on the machine makes this process wait, but not work. What this process does beside it only adds.
  const least = Object.fromEntries([...times].map(([name, all]) => [name, Math.min(...all)]));
  const values = Object.values(least);
  assert.ok(Math.max(...values) < 2 * Math.min(...values), JSON.stringify(least));
});

test('an email of several accounts: the accounts with that password are offered, without a further scrypt', async () => {
  using files = scratch();
  const hashing = counting(createPasswordHashing(CHEAP));
  await using place = await usersPlace(files, { hashing });
  const email = 'ann@example.com';
  const joined = async (password: string): Promise<string> => {
    const { id, token } = await createUser(place, operator(await place.account()), { email, role: 'member' });
    const request = { visit: at(HOME), requestId: 'test', route: 'test' };
    assert.ok(await setPasswordByLink(place, { token, password }, request));
    return id;
  };
  const [same, alike, other] = [await joined(PASSWORD), await joined(PASSWORD), await joined('another horse battery')];
  // Invited, and never there.
  await createUser(place, operator(await place.account()), { email, role: 'admin' });
  const signIn = async (password: string) => {
    hashing.count = 0;
    const found = await place.signIn({ email, password }, at(HOME));
    assert.equal(hashing.count, 1);
    return found;
  };
  const userOfToken = async (found: object | undefined) =>
    found && 'token' in found ? (await sessionOf(place, String(found.token)))?.userId : undefined;
  assert.equal(await signIn('wrong horse battery'), undefined);
  assert.equal(await userOfToken(await signIn('another horse battery')), other);
  const found = await signIn(PASSWORD);
  assert.ok(found && 'choice' in found);
  const { choice } = found;
  assert.deepEqual((await place.signIn.accounts(choice))?.map(({ id }) => id).toSorted(), [same, alike].toSorted());
  assert.equal(await place.signIn.choose(choice, other, at(HOME)), undefined, 'one that was not offered');
  assert.equal(await userOfToken(await place.signIn.choose(choice, alike, at(HOME))), alike);
  const [body = '', signature = ''] = choice.split('.');
  const forged = Buffer.from(JSON.stringify({ users: [other], until: place.clock.now() + 1e6 })).toString('base64url');
  for (const bad of ['', '.', body, `${body}.`, `${forged}.${signature}`, `${body}.${signature.slice(1)}x`])
    assert.equal(await place.signIn.accounts(bad), undefined, bad);
  const { account_id } = await place.database.db
    .selectFrom('users')
    .select('account_id')
    .where('id', '=', same)
    .executeTakeFirstOrThrow();
  await setDisabled(place, { ...operator(account_id), userId: same }, true);
  assert.equal(await place.signIn.choose(choice, alike, at(HOME)), undefined, 'what was offered has changed');
  assert.equal(await userOfToken(await signIn(PASSWORD)), alike, 'a disabled one is not offered');
});

function limited(now: () => number) {
  return {
    byAddress: createAddressLimit({ limit: 20, clock: now }),
    byUser: createSteadyLimit({ limit: 10, clock: now }),
  };
}

test('guesses from everywhere keep no user out: not at home, not from a new network', async () => {
  using files = scratch();
  let now = 0;
  await using place = await usersPlace(files, { limits: limited(() => now) });
  await userOf(place, 'ann@example.com');
  const guess = (email: string, address: string) =>
    place.signIn({ email, password: 'wrong horse battery' }, at(address));
  const right = (email: string, address: string) => place.signIn({ email, password: PASSWORD }, at(address));
  for (const email of ['ann@example.com', 'nobody@example.com'])
    for (let i = 0; i < 30; i += 1) assert.equal(await guess(email, `198.51.100.${i}`), undefined);
  for (let i = 0; i < 10; i += 1) assert.equal(await guess('ann@example.com', `2001:db8:1:${i}::1`), undefined);
  await assert.rejects(() => guess('ann@example.com', '2001:db8:1:99::1'), isLimited, 'all of a /48 has ten');
  assert.ok(await right('ann@example.com', HOME), 'at home');
  assert.ok(await right('ann@example.com', '203.0.113.5'), 'from a new network');
  await assert.rejects(() => right('ann@example.com', '2001:db8:1:77::1'), isLimited, 'from where it is guessed');
  now += 60_000;
  assert.ok(await right('ann@example.com', '2001:db8:1:77::1'), 'a minute without guesses is enough');
});

test('one network has its share of guesses, however many users it tries, and so has all of an IPv6 /64', async () => {
  using files = scratch();
  await using place = await usersPlace(files, { limits: limited(() => 0) });
  for (const address of [() => '198.51.100.7', (i: number) => `2001:db8::${i.toString(16)}`]) {
    let answered = 0;
    for (let i = 1; i <= 40; i += 1) {
      await place.signIn({ email: `user${i}@example.com`, password: PASSWORD }, at(address(i))).then(
        () => (answered += 1),
        (error: unknown) => assert.ok(isLimited(error)),
      );
    }
    assert.equal(answered, 20);
  }
});

test('a flood waits in a bounded queue, and requests beyond that are refused at once', async () => {
  const hashing = createPasswordHashing({ ln: 12, r: 8, p: 1 });
  const flood = Array.from({ length: 100 }, () => hashing.matching(PASSWORD, [], from('198.51.100.1')));
  const results = await Promise.allSettled(flood);
  const refused = results.filter((result) => result.status === 'rejected');
  assert.equal(refused.length, 68, 'two at work, thirty waiting');
  for (const { reason } of refused) assert.ok(isLimited(reason));
  assert.equal(await matches(hashing, PASSWORD, await hashing.hash(PASSWORD)), true);
});

test('a flood from many addresses locks out nobody who has signed in from their network before, and strangers get a turn', async () => {
  const queue = createHashingQueue();
  const begun: string[] = [];
  const ask = (name: string, where: Origin): Promise<void> =>
    queue(where, async () => {
      begun.push(name);
      await setImmediate();
    });
  const floods = {
    'IPv4 addresses': (i: number) => `198.51.100.${i % 24}`,
    'a /48': (i: number) => `2001:db8:1:${i.toString(16)}::1`,
  };
  for (const [name, address] of Object.entries(floods)) {
    begun.length = 0;
    const flood = Array.from({ length: 200 }, (_, i) => ask(`flood ${i}`, from(address(i))));
    const victims = [ask('known', from(HOME, true)), ask('stranger', from('2001:db8:2::1'))];
    const more = Array.from({ length: 200 }, (_, i) => ask(`flood ${i}`, from(address(i))));
    const refusals = await Promise.allSettled([...flood, ...more]);
    await Promise.all(victims);
    assert.ok(
      refusals.some(({ status }) => status === 'rejected'),
      name,
    );
    // Two were at work when they came.
    assert.equal(begun.indexOf('known'), 2, name);
    if (name === 'a /48') assert.equal(begun.indexOf('stranger'), 3, name);
  }
});

test('a hash is of one password alone, says its parameters, and is another one each time', async () => {
  const hashing = createPasswordHashing(CHEAP);
  const encoded = await hashing.hash(PASSWORD);
  assert.match(encoded, /^\$scrypt\$ln=4,r=8,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  assert.notEqual(await hashing.hash(PASSWORD), encoded);
  assert.equal(await matches(createPasswordHashing({ ln: 5, r: 8, p: 2 }), PASSWORD, encoded), true);
  assert.match(await createPasswordHashing().hash(PASSWORD), /^\$scrypt\$ln=16,r=8,p=2\$/);
  await assert.rejects(matches(hashing, PASSWORD, 'not a hash'));
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(text, text, async (first, second) => {
      const same = first.normalize('NFKC') === second.normalize('NFKC');
      const hash = await hashing.hash(first);
      assert.equal(await matches(hashing, second, hash), same);
      assert.equal(await matches(hashing, first.normalize('NFD'), hash), true);
      assert.equal(await matches(hashing, first), false);
    }),
    { numRuns: 50 },
  );
});

test('passwords must be long enough, not too long, not common, and not the email', async () => {
  const { hash } = createPasswords(createPasswordHashing(CHEAP));
  const refusal = async (password: string) => {
    try {
      await hash(password, 'ann.example@example.com');
      return undefined;
    } catch (error) {
      assert.ok(error instanceof ValidationError);
      return error.fields['password']?.map(messageOf).join();
    }
  };
  for (const good of ['twelve chars', 'пароль-пароль', 'x'.repeat(200), '🐎🐎🐎🐎🐎🐎🐎🐎🐎🐎🐎🐎']) {
    assert.equal(await refusal(good), undefined, good);
  }
  for (const short of ['', 'eleven char', '🐎🐎🐎🐎🐎🐎']) assert.match((await refusal(short)) ?? '', /at least 12/);
  assert.match((await refusal('x'.repeat(201))) ?? '', /at most 200/);
  const common = [
    '123qweasdzxc',
    'QwertyQwerty',
    'passwordpassword',
    'ｑｗｅｒｔｙｑｗｅｒｔｙ',
    '123456789012',
    'unbelievable',
  ];
  for (const password of common) assert.match((await refusal(password)) ?? '', /most common/, password);
  assert.match((await refusal('Ann.Example@example.com')) ?? '', /your email/);
});

/** What holds for an account, a user or a directory holds when two nodes, or two processes, change it at the same moment. */
import { test } from 'node:test';
import { TOTP } from 'otpauth';
import { createKey, listKeys, revokeKey } from '../../src/rules/api-keys/api-keys.ts';
import { DIRECTORY_LIMITS, lockedAccount, markDeleted } from '../../src/rules/accounts/accounts.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { deleteDirectory, finishDeletions } from '../../src/rules/directories/delete.ts';
import { addPublicKey, removePublicKey } from '../../src/rules/directories/public-keys.ts';
import { updateAuth, updateBasics } from '../../src/rules/directories/update.ts';
import { BerthError, OperatorError, ValidationError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { newSecret, setUpSecondFactor, signInWithCode } from '../../src/rules/users/second-factor.ts';
import { openUserSession, sessionOf } from '../../src/rules/users/sessions.ts';
import { setPasswordByLink } from '../../src/rules/users/set-password.ts';
import { createUser, listUsers, removeUser, setDisabled, setRights } from '../../src/rules/users/users.ts';
import { assertWithin } from '../support/long.ts';
import { postgresOnly } from '../support/postgres.ts';
import { madeKeys } from '../support/made-keys.ts';
import { operator } from '../support/users.ts';
import { succeeded, twoWriters, type TwoWriters, type Writer } from './two-writers.ts';

import assert from 'node:assert/strict';

const VISIT = { address: '192.0.2.1', agent: 'test' };
const WORD = 'correct horse battery';

const hasCode =
  (...codes: string[]) =>
  (error: unknown): boolean =>
    error instanceof BerthError && codes.includes(error.code);
const isValidation = (error: unknown): boolean => error instanceof ValidationError;

/** A signed-in session of a user who still has to give a code. */
async function awaiting({ database, clock }: Writer, userId: string) {
  const token = await database.db
    .transaction()
    .execute((tx) => openUserSession(tx, userId, { now: clock.now(), visit: VISIT, awaitsCode: true }));
  const session = await sessionOf({ database, clock }, token);
  assert.ok(session);
  return session;
}

async function admins({ reads }: TwoWriters, account: string): Promise<string[]> {
  const users = await listUsers(reads, account);
  return users.filter(({ role, disabled_at }) => role === 'admin' && disabled_at === null).map(({ id }) => id);
}

test('sixty creates at once on two nodes make as many directories as the plan allows, each with a UID and a name of its own', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const account = await nodes.account('pro');
  const creates = Array.from({ length: 60 }, (_, i) =>
    createDirectory(i % 2 === 0 ? one : other, { accountId: account }, { name: `Orders ${i}` }),
  );
  assert.equal(await succeeded(creates, hasCode('directory_limit')), DIRECTORY_LIMITS.pro);
  const rows = await reads.selectFrom('directories').select(['uid', 'sftp_username']).execute();
  assert.equal(rows.length, 25);
  assert.equal(new Set(rows.map(({ uid }) => uid)).size, 25);
  assert.equal(new Set(rows.map(({ sftp_username }) => sftp_username)).size, 25);
});

test('creates of two accounts on two nodes never take the same UID, and none is taken again after a rollback', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const accounts = await Promise.all([nodes.account(), nodes.account()]);
  const response = { keep: () => Promise.reject(new Error('rolled back')), withdraw: () => async () => undefined };
  const creates = Array.from({ length: 40 }, (_, i) => {
    const [node, account] = i % 2 === 0 ? [one, accounts[0]] : [other, accounts[1]];
    const actor = i % 5 === 0 ? { ...operator(account).actor, response } : undefined;
    return createDirectory(node, { accountId: account, actor }, { name: `Orders ${i}` });
  });
  assert.equal(await succeeded(creates, (error) => error instanceof Error && error.message === 'rolled back'), 32);
  const rows = await reads.selectFrom('principals').select('uid').execute();
  assert.equal(new Set(rows.map(({ uid }) => uid)).size, 32);
  assert.ok(rows.every(({ uid }) => uid >= 1_879_048_192 && uid < 1_879_048_192 + 100));
});

test('two admins who take away each other’s role on two nodes leave one', async () => {
  await using nodes = await twoWriters();
  const account = await nodes.account();
  const by = operator(account);
  const people = [];
  for (const email of ['ann@example.com', 'bob@example.com'])
    people.push(await createUser(nodes.one, by, { email, role: 'admin' }));
  const [ann, bob] = people;
  assert.ok(ann && bob);
  for (let round = 0; round < 8; round += 1) {
    const changes: Promise<void>[] = [
      setRights(nodes.one, { ...by, userId: ann.id }, { role: 'member' }),
      setDisabled(nodes.other, { ...by, userId: bob.id }, true),
    ];
    assert.equal(await succeeded(changes, hasCode('last_admin')), 1);
    assert.equal((await admins(nodes, account)).length, 1);
    await setRights(nodes.one, { ...by, userId: ann.id }, { role: 'admin' });
    await setDisabled(nodes.other, { ...by, userId: bob.id }, false);
  }
  const removals = [
    removeUser(nodes.one, { ...by, userId: ann.id }),
    removeUser(nodes.other, { ...by, userId: bob.id }),
  ];
  assert.equal(await succeeded(removals, hasCode('last_admin')), 1);
});

test('an email that two nodes give to new users of an account at once gets one user, and one of each account', async () => {
  await using nodes = await twoWriters();
  const [account, second] = [await nodes.account(), await nodes.account()];
  for (let round = 0; round < 5; round += 1) {
    const fields = { email: `ann${round}@example.com`, role: 'member' };
    const both = (accounts: readonly string[]) =>
      [nodes.one, nodes.other].map((node, i) => createUser(node, operator(accounts[i] ?? ''), fields));
    assert.equal(await succeeded(both([account, account]), isValidation), 1);
    const others = { ...fields, email: `bob${round}@example.com` };
    const apart = [createUser(nodes.one, operator(account), others), createUser(nodes.other, operator(second), others)];
    assert.equal(await succeeded(apart, isValidation), 2);
  }
});

test('a code of the second factor, a recovery code and a link are each taken by one node', async () => {
  await using nodes = await twoWriters();
  const { one, other } = nodes;
  const account = await nodes.account();
  const by = operator(account);
  for (let round = 0; round < 5; round += 1) {
    const user = await createUser(one, by, { email: `ann${round}@example.com`, role: 'admin' });
    const byLink = [one, other].map((node) =>
      setPasswordByLink(node, { token: user.token, password: WORD }, { visit: VISIT, requestId: 'r', route: 'r' }),
    );
    const entered = await Promise.all(byLink);
    assert.equal(entered.filter((each) => each !== undefined).length, 1);

    const secret = newSecret();
    const code = (at: number): string => new TOTP({ secret }).generate({ timestamp: at / 1000 });
    const now = one.clock.now();
    const earlier = code(now - 30_000_000);
    const recovery = await setUpSecondFactor(one, { ...by, userId: user.id }, { secret, code: earlier });
    // By the same clock, so that both know the code.
    const sameClock = { ...other, clock: one.clock };
    for (const each of [code(now), recovery[0] ?? '']) {
      const sessions = await Promise.all([awaiting(one, user.id), awaiting(sameClock, user.id)]);
      const uses = [one, sameClock].map(async (node, i) => {
        const session = sessions[i];
        assert.ok(session);
        return signInWithCode(node, session, { code: each, visit: VISIT });
      });
      assert.equal(await succeeded(uses, isValidation), 1);
    }
  }
});

test('public keys that two nodes add and take away at once are those that sshd reads', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const account = await nodes.account();
  const { directory } = await createDirectory(one, { accountId: account }, { name: 'Orders' });
  const keys = madeKeys(20);
  const add = (i: number) =>
    addPublicKey(
      i % 2 === 0 ? one : other,
      { accountId: account, id: directory.id },
      { public_key: keys[i]?.line ?? '' },
    );
  await Promise.all(keys.map((_, i) => add(i)));
  const remove = keys
    .slice(0, 10)
    .map(({ fingerprint }, i) =>
      removePublicKey(i % 2 === 0 ? other : one, { accountId: account, id: directory.id }, fingerprint),
    );
  await Promise.all([
    ...remove,
    updateBasics(one, { accountId: account, id: directory.id }, { name: 'Other' }),
    updateAuth(other, { accountId: account, id: directory.id }, { auth_mode: 'both' }),
  ]);
  const rows = await reads.selectFrom('public_keys').select('line').orderBy('inserted_at', 'desc').execute();
  const row = await reads.selectFrom('directories').selectAll().executeTakeFirstOrThrow();
  assert.equal(rows.length, 10);
  assert.equal(row.public_key, rows.map(({ line }) => line).join('\n'));
  assert.deepEqual([row.name, row.auth_mode], ['Other', 'both']);
});

test('a key that two nodes revoke at once is revoked once', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const account = await nodes.account();
  const by = operator(account);
  for (let round = 0; round < 5; round += 1) {
    const key = await createKey(one, { accountId: account }, { role: 'admin', name: 'A' });
    const times = await Promise.all([one, other].map((node) => revokeKey(node, by, key.id)));
    assert.equal(times[0]?.revoked_at, times[1]?.revoked_at);
  }
  const audit = await reads.selectFrom('audit').select('id').where('action', '=', 'revoke-key').execute();
  assert.equal(audit.length, 5);
});

test('an account that is deleted on both nodes goes, whatever is made in it meanwhile', async () => {
  await using nodes = await twoWriters();
  const { one, other, reads } = nodes;
  const [log, { signal }] = [createLog('silent'), new AbortController()];
  const account = await nodes.account();
  const by = operator(account);
  await Promise.all(
    Array.from({ length: 6 }, (_, i) => createDirectory(one, { accountId: account }, { name: `Orders ${i}` })),
  );
  const isGone = (error: unknown): boolean => error instanceof OperatorError || hasCode('unauthenticated')(error);
  const busy = Array.from({ length: 12 }, async (_, i) => {
    const node = i % 2 === 0 ? one : other;
    await createDirectory(node, { accountId: account }, { name: `Late ${i}` });
    await createUser(node, by, { email: `late${i}@example.com`, role: 'member' });
    await createKey(node, { accountId: account }, { role: 'admin', name: 'A' });
  });
  const made = succeeded(busy, isGone);
  await Promise.all([markDeleted(one, account, 'a'), markDeleted(other, account, 'b')]);
  await made;
  for (let round = 0; round < 20; round += 1) {
    await Promise.all([one, other].map((node) => finishDeletions({ ...node, log }, signal)));
    await Promise.all([one, other].map(({ removal }) => removal.idle()));
    if ((await reads.selectFrom('accounts').select('id').execute()).length === 0) break;
  }
  for (const table of ['accounts', 'directories', 'api_keys', 'users'] as const)
    assert.deepEqual(await reads.selectFrom(table).selectAll().execute(), [], table);
  await assert.rejects(listKeys(one.database, account), OperatorError);
});

test('when two nodes delete one directory, one of them finds it', async () => {
  await using nodes = await twoWriters();
  const { one, other } = nodes;
  const account = await nodes.account();
  for (let round = 0; round < 5; round += 1) {
    const { directory } = await createDirectory(one, { accountId: account }, { name: 'Orders' });
    const gone = [one, other].map((node) => deleteDirectory(node, { accountId: account, id: directory.id }));
    assert.equal(await succeeded(gone, hasCode('directory_not_found')), 1);
  }
});

test('a node that froze in a transaction keeps nobody from its rows for long', postgresOnly, async () => {
  await using nodes = await twoWriters();
  const { one, other } = nodes;
  const account = await nodes.account();
  const locked = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  const frozen = one.database.db.transaction().execute(async (tx) => {
    await lockedAccount(tx, account);
    locked.resolve();
    await thawed.promise;
    await tx.updateTable('accounts').set({ name: 'Late' }).where('id', '=', account).execute();
  });
  await locked.promise;
  const began = performance.now();
  await createDirectory(other, { accountId: account }, { name: 'Orders' });
  assertWithin(5000, performance.now() - began, 'ms until the other node has its turn');
  thawed.resolve();
  await assert.rejects(frozen);
  await createDirectory(one, { accountId: account }, { name: 'Orders' });
  const { name } = await nodes.reads.selectFrom('accounts').select('name').executeTakeFirstOrThrow();
  assert.equal(name, 'Acme');
});

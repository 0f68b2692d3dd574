/** Users: what one account may do to another's, what remains after a deletion, and what expires. */
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { markDeleted } from '../../src/rules/accounts/accounts.ts';
import { adaptRestored } from '../../src/operating/backup/restore.ts';
import { DAY } from '../../src/foundation/base/clock.ts';
import { createGround } from '../../src/foundation/context.ts';
import { confirmClock, createClockLead } from '../../src/foundation/db/clock-lead.ts';
import { finishDeletions } from '../../src/rules/directories/delete.ts';
import { onlyHome } from '../../src/rules/directories/host.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import { BerthError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { openUserSession, removeExpired, sessionOf } from '../../src/rules/users/sessions.ts';
import { newLink, ownerOfLink } from '../../src/rules/users/password-links.ts';
import { setPassword, setPasswordByLink } from '../../src/rules/users/set-password.ts';
import { createUser, removeUser, resetPassword, setDisabled, setRights } from '../../src/rules/users/users.ts';
import { recordingHost } from '../support/recording-host.ts';
import { scratch } from '../support/scratch.ts';
import { operator, PASSWORD } from '../support/users.ts';
import { type UsersPlace, usersPlace } from '../support/users-place.ts';

import assert from 'node:assert/strict';

const VISIT = { address: '192.0.2.1', agent: 'test' };
const REQUEST = { visit: VISIT, requestId: 'test', route: 'test' };
const stop = new AbortController().signal;

/** A user with a session, a second factor's recovery code and a link. */
async function userOf(place: UsersPlace, accountId: string, email = 'ann@example.com') {
  const user = await createUser(place, operator(accountId), { email, role: 'admin' });
  await place.database.db.insertInto('recovery_codes').values({ user_id: user.id, hash: 'x' }).execute();
  const now = place.clock.now();
  const session = await place.database.db
    .transaction()
    .execute((tx) => openUserSession(tx, user.id, { now, visit: VISIT, awaitsCode: false }));
  return { ...user, session };
}

const TABLES = ['users', 'user_links', 'user_sessions', 'recovery_codes'] as const;

async function rowsOf({ database }: UsersPlace): Promise<number[]> {
  return Promise.all(TABLES.map(async (table) => (await database.db.selectFrom(table).selectAll().execute()).length));
}

test('an admin of another account cannot see or change a user', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const [mine, theirs] = [await place.account(), await place.account()];
  const user = await userOf(place, theirs);
  const before = await place.database.db.selectFrom('users').selectAll().execute();
  const by = { ...operator(mine), mayLeaveNoAdmin: true } as const;
  const attempts = [
    () => setRights(place, { ...by, userId: user.id }, { role: 'member' }),
    () => setDisabled(place, { ...by, userId: user.id }, true),
    () => resetPassword(place, { ...by, userId: user.id }),
    () => removeUser(place, { ...by, userId: user.id }),
    () => setPassword(place, { ...by, userId: user.id, email: user.email }, PASSWORD),
  ];
  for (const attempt of attempts) {
    await assert.rejects(attempt, (error) => error instanceof BerthError && error.code === 'user_not_found');
  }
  assert.deepEqual(await place.database.db.selectFrom('users').selectAll().execute(), before);
  assert.ok(await sessionOf(place, user.session, VISIT));
});

test('the audit has each change with its user, and no secret', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const by = operator(await place.account());
  const other = await createUser(place, by, { email: 'bob@example.com', role: 'admin' });
  const user = await createUser(place, by, { email: 'ann@example.com', role: 'member' });
  const entered = await setPasswordByLink(place, { token: user.token, password: PASSWORD }, REQUEST);
  await setRights(place, { ...by, userId: user.id }, { role: 'admin' });
  await setRights(place, { ...by, userId: user.id }, { role: 'admin' });
  await setDisabled(place, { ...by, userId: user.id }, true);
  const token = await resetPassword(place, { ...by, userId: other.id });
  await removeUser(place, { ...by, userId: user.id });
  const rows = await place.database.db.selectFrom('audit').selectAll().orderBy('id').execute();
  const who = { from: 'ann@example.com', to: 'ann@example.com' };
  assert.deepEqual(
    rows.map(({ action, key_id, changes }) => [action, key_id, JSON.parse(changes)]),
    [
      [
        'create-user',
        'operator:root',
        { email: { from: null, to: 'bob@example.com' }, role: { from: null, to: 'admin' } },
      ],
      [
        'create-user',
        'operator:root',
        { email: { from: null, to: 'ann@example.com' }, role: { from: null, to: 'member' } },
      ],
      ['update-user', 'user:ann@example.com', { email: who, password: { from: null, to: 'set' } }],
      ['update-user', 'operator:root', { email: who, role: { from: 'member', to: 'admin' } }],
      ['update-user', 'operator:root', { email: who, disabled: { from: false, to: true } }],
      [
        'update-user',
        'operator:root',
        { email: { from: 'bob@example.com', to: 'bob@example.com' }, password: { from: 'set', to: 'to be set' } },
      ],
      ['remove-user', 'operator:root', { email: who, role: { from: 'admin', to: null } }],
    ],
  );
  for (const secret of [PASSWORD, user.token, token, entered?.token ?? '']) {
    assert.ok(!JSON.stringify(rows).includes(secret));
  }
});

test('the database knows no link, session or password, only their hashes', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const user = await userOf(place, await place.account());
  const entered = await setPasswordByLink(place, { token: user.token, password: PASSWORD }, REQUEST);
  const token = await resetPassword(place, {
    ...operator(await accountOf(place)),
    userId: user.id,
    mayLeaveNoAdmin: true,
  });
  const rows = await Promise.all(TABLES.map((table) => place.database.db.selectFrom(table).selectAll().execute()));
  for (const secret of [PASSWORD, user.token, token, entered?.token ?? '-']) {
    assert.ok(!JSON.stringify(rows).includes(secret));
  }
});

async function accountOf({ database }: UsersPlace): Promise<string> {
  return (await database.db.selectFrom('users').select('account_id').executeTakeFirstOrThrow()).account_id;
}

test('a deleted account lets none of its users in, and takes them with it', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const [gone, stays] = [await place.account(), await place.account()];
  const user = await userOf(place, gone);
  const other = await userOf(place, stays, 'bob@example.com');
  await markDeleted(place, gone, 'operator:root');
  assert.equal(await sessionOf(place, user.session, VISIT), undefined);
  assert.equal(await ownerOfLink(place.database.reads, user.token, place.clock.now()), undefined);
  assert.equal(await setPasswordByLink(place, { token: user.token, password: PASSWORD }, REQUEST), undefined);

  const { database, clock } = place;
  const log = createLog('silent');
  const host = recordingHost();
  const removal = createRowRemoval({ database, log, host });
  const placement = onlyHome({ node: '', sftp: { host: 'sftp.example.com', port: 2222 } });
  await finishDeletions(
    { ...createGround({ config: files.config, database, clock, log }), host, placement, removal },
    stop,
  );
  await removal.close();
  assert.deepEqual(await rowsOf(place), [1, 1, 1, 1]);
  assert.ok(await sessionOf(place, other.session, VISIT));
  const again = await createUser(place, operator(stays), { email: 'ann@example.com', role: 'member' });
  assert.notEqual(again.id, user.id, 'the email is free again');
});

test('a restored backup brings no session and no link back to life; users and passwords are as they were', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const user = await userOf(place, await place.account());
  await setPasswordByLink(place, { token: user.token, password: PASSWORD }, REQUEST);
  const later = await place.database.db.transaction().execute((tx) => newLink(tx, user.id, place.clock.now()));
  assert.deepEqual(await rowsOf(place), [1, 1, 1, 1]);
  await adaptRestored(place.database, files.config.node);
  assert.deepEqual(await rowsOf(place), [1, 0, 0, 1]);
  assert.equal(await sessionOf(place, user.session, VISIT), undefined);
  assert.equal(await ownerOfLink(place.database.reads, later, place.clock.now()), undefined);
  assert.ok(await place.signIn({ email: user.email, password: PASSWORD }, VISIT));
});

test('ended sessions and links are removed in bounded batches, and a clock that jumps makes nothing old', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const { database, clock } = place;
  const user = await userOf(place, await place.account());
  await database.db.transaction().execute(async (tx) => {
    const now = clock.now();
    for (let i = 0; i < 1200; i += 1)
      await openUserSession(tx, user.id, { now, visit: VISIT, awaitsCode: i % 2 === 0 });
  });
  const clockLead = createClockLead({ database, clock, log: createLog('silent') });
  const remove = () => removeExpired({ database, clockLead }, stop);
  await remove();
  assert.deepEqual(await rowsOf(place), [1, 1, 1201, 1], 'they are live');
  clock.advance(2 * DAY);
  await remove();
  assert.deepEqual(await rowsOf(place), [1, 1, 1201, 1], 'the clock may be wrong');
  await confirmClock({ database, clock });
  await openSessionOf(place, user.id);
  await remove();
  assert.deepEqual(await rowsOf(place), [1, 0, 1, 1]);
});

function openSessionOf({ database, clock }: UsersPlace, id: string): Promise<string> {
  const now = clock.now();
  return database.db.transaction().execute((tx) => openUserSession(tx, id, { now, visit: VISIT, awaitsCode: false }));
}

test('a clock that jumps forward or back locks nobody out', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const user = await userOf(place, await place.account());
  await setPasswordByLink(place, { token: user.token, password: PASSWORD }, REQUEST);
  for (const jump of [3650, -7300, 3650, -1, 1]) {
    place.clock.advance(jump * DAY);
    const entered = await place.signIn({ email: user.email, password: PASSWORD }, VISIT);
    assert.ok(entered && 'token' in entered && (await sessionOf(place, entered.token, VISIT)));
    const link = await resetPassword(place, { ...operator(await accountOf(place)), userId: user.id });
    assert.ok(await setPasswordByLink(place, { token: link, password: PASSWORD }, REQUEST));
  }
  const before = await openSessionOf(place, user.id);
  place.clock.advance(-DAY);
  assert.ok(await sessionOf(place, before, VISIT));
  place.clock.advance(DAY / 2 + 1000);
  assert.equal(await sessionOf(place, before, VISIT), undefined, 'idle for 12 h, by the clock as it is now');
});

test('a crash between the commit and the answer: the link is used up, and its password signs in', async () => {
  using files = scratch();
  const user = await (async () => {
    await using place = await usersPlace(files);
    return await userOf(place, await place.account());
  })();
  const dying = (after: 'hash' | 'commit') =>
    spawnSync(process.execPath, [fileURLToPath(new URL('dying-link.ts', import.meta.url)), after, user.token], {
      env: { ...process.env, DATABASE: files.config.database },
      encoding: 'utf8',
    });
  const before = dying('hash');
  assert.equal(before.signal, 'SIGKILL', before.stderr);
  {
    await using place = await usersPlace(files);
    assert.ok(
      await ownerOfLink(place.database.reads, user.token, place.clock.now()),
      'before it: nothing has happened',
    );
    assert.equal(await place.signIn({ email: user.email, password: PASSWORD }, VISIT), undefined);
  }
  assert.equal(dying('commit').signal, 'SIGKILL');
  await using place = await usersPlace(files);
  assert.equal(await ownerOfLink(place.database.reads, user.token, place.clock.now()), undefined);
  assert.ok(await place.signIn({ email: user.email, password: PASSWORD }, VISIT));
});

test('of two users of one link at once, one is signed in', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const user = await userOf(place, await place.account());
  const passwords = [PASSWORD, `${PASSWORD} too`];
  const entered = await Promise.all(
    passwords.map((password) => setPasswordByLink(place, { token: user.token, password }, REQUEST)),
  );
  assert.equal(entered.filter(Boolean).length, 1);
  const wins = passwords.filter((_, i) => entered[i]);
  for (const password of passwords) {
    assert.equal(Boolean(await place.signIn({ email: user.email, password }, VISIT)), wins.includes(password));
  }
});

test('a session that ends while its new password is hashed sets none, and the link of its end still works', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  const accountId = await place.account();
  const user = await userOf(place, accountId);
  const asking = await sessionOf(place, user.session, VISIT);
  assert.ok(asking);
  const { credential } = asking.principal;
  const actor = { ...operator(accountId).actor, keyId: `user:${user.email}`, credential };
  let link = '';
  const passwords = {
    ...place.passwords,
    async hash(password: string, email: string) {
      const hash = await place.passwords.hash(password, email);
      link = await resetPassword(place, { ...operator(accountId), userId: user.id });
      return hash;
    },
  };
  await assert.rejects(
    setPassword(
      { ...place, passwords },
      { accountId, actor, userId: user.id, keptSession: asking.sessionId, email: user.email },
      PASSWORD,
    ),
    ({ code }: BerthError) => code === 'not_authorized',
  );
  assert.equal(await place.signIn({ email: user.email, password: PASSWORD }, VISIT), undefined);
  assert.ok(await setPasswordByLink(place, { token: link, password: PASSWORD }, REQUEST));
});

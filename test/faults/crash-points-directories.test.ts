/**
 * The process dies right after each durable step of creating, changing and deleting a directory. The next start ends in a
 * state that the API could have reached, and no revoked credential works.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { publicKeysOf } from '../../src/rules/directories/public-keys.ts';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { onPostgres } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { keyPair } from '../support/sftp-user.ts';
import { crashPlace } from './crash-place.ts';

test('create, cut off after any step, leaves a whole directory and nothing beside it', async (t) => {
  await using place = await crashPlace();
  const deaths = await place.deaths('create', { onNew: false });
  assert.ok(deaths[0]?.last.startsWith('commit: insert principals'));
  assert.ok(deaths.length >= 14, `only ${deaths.length} steps`);
  const rows = await place.database.db.selectFrom('directories').selectAll().execute();
  assert.ok(
    rows.some((row) => !place.isApplied(row)),
    'the disk is behind before the start',
  );
  await place.nextStart();
  const names = rows.map(({ sftp_username }) => sftp_username).sort();
  for (const { step, last } of deaths) {
    // It does not matter which of the equal directories belongs to which request: all have to be complete.
    await t.test(`after step ${step}, ${last}: it can be used`, () => {
      const row = rows[step - 1];
      assert.ok(row && place.isApplied(row));
      assert.equal(row.deleted_at, null);
    });
  }
  assert.deepEqual(readdirSync(place.paths.jails).sort(), ['.berth', ...names]);
  assert.deepEqual(readdirSync(place.paths.limits).sort(), names);
  const leftovers = readdirSync(place.paths.corner).filter((name) => name.startsWith('new-'));
  assert.deepEqual(leftovers, []);
});

test('a change of the way to log in, cut off after any step: the new way works and the old one does not', async (t) => {
  await using place = await crashPlace();
  using keys = scratch();
  const key = keyPair(keys.dir).publicKey;
  const deaths = await place.deaths('auth', { key });
  assert.ok(deaths.length >= 8, `only ${deaths.length} steps`);
  await place.nextStart();
  for (const { step, last, directory } of deaths) {
    await t.test(`after step ${step}, ${last}: the password is dead, the key lets in`, async () => {
      assert.ok(directory);
      const row = await place.row(directory.id);
      assert.ok(row && place.isApplied(row));
      assert.equal(row.auth_mode, 'public_key');
      const name = directory.sftp_username;
      const secret = readFileSync(join(place.paths.userdb, `${name}.user-privileged`), 'utf8');
      assert.equal(secret.includes(directory.password_hash), false);
      assert.equal(readFileSync(join(place.paths.authorizedKeys, name), 'utf8').trim(), key);
    });
  }
});

test('a new password, cut off after any step: the old one is dead, and what is stored is what lets in', async (t) => {
  await using place = await crashPlace();
  const deaths = await place.deaths('password', {});
  assert.ok(deaths.length >= 6, `only ${deaths.length} steps`);
  await place.nextStart();
  for (const { step, last, directory } of deaths) {
    await t.test(`after step ${step}, ${last}: the row's hash is in force`, async () => {
      assert.ok(directory);
      const row = await place.row(directory.id);
      assert.ok(row && place.isApplied(row));
      assert.notEqual(row.password_hash, directory.password_hash);
      const secret = readFileSync(join(place.paths.userdb, `${row.sftp_username}.user-privileged`), 'utf8');
      assert.equal(secret.includes(directory.password_hash), false);
    });
  }
});

for (const [operation, before, after] of [
  ['add key', ['old'], ['new', 'old']],
  ['remove key', ['old', 'new'], ['old']],
] as const) {
  test(`${operation}, cut off after any step: rows, columns and what sshd reads name the same keys`, async (t) => {
    await using place = await crashPlace();
    using files = scratch();
    const keys = { old: keyPair(files.dir, 'old').publicKey, new: keyPair(files.dir, 'new').publicKey };
    const deaths = await place.deaths(operation, {
      key: keys.new,
      before: ({ id }) =>
        place.withKeys(
          id,
          before.map((name) => keys[name]),
        ),
    });
    assert.ok(deaths.length >= 6, `only ${deaths.length} steps`);
    await place.nextStart();
    const lines = after.map((name) => keys[name]);
    for (const { step, last, directory } of deaths) {
      await t.test(`after step ${step}, ${last}`, async () => {
        const row = await place.row(directory?.id ?? '');
        assert.ok(row && place.isApplied(row));
        assert.equal(row.public_key, lines.join('\n'));
        const stored = readFileSync(join(place.paths.authorizedKeys, row.sftp_username), 'utf8');
        assert.equal(stored, lines.map((line) => `${line}\n`).join(''));
        const shown = await publicKeysOf(place.database.reads, row.id);
        assert.equal(shown.length, lines.length);
        assert.equal(shown[0]?.fingerprint, row.public_key_fingerprint);
      });
    }
  });
}

for (const [name, access, limit] of [
  ['suspended', { suspended: true }, 'suspended\n'],
  ['resumed', { suspended: false }, '10\n'],
  [
    'restricted',
    { expires_at: '2099-01-01T00:00:00Z', allowed_networks: ['10.0.0.0/8'] },
    /^10 \d{16} networks\n10\.\*\.\*\n$/,
  ],
] as const) {
  test(`a directory that is ${name}, cut off after any step: the limit file says what the row says`, async (t) => {
    await using place = await crashPlace();
    const deaths = await place.deaths('access', {
      key: JSON.stringify(access),
      before: ({ id }) => (name === 'resumed' ? place.suspend(id) : Promise.resolve()),
    });
    assert.ok(deaths.length >= 4, `only ${deaths.length} steps`);
    await place.nextStart();
    for (const { step, last, directory } of deaths) {
      await t.test(`after step ${step}, ${last}`, async () => {
        const row = await place.row(directory?.id ?? '');
        assert.ok(row && place.isApplied(row));
        assert.equal(row.suspended, name === 'suspended' ? 1 : 0);
        const text = readFileSync(join(place.paths.limits, row.sftp_username), 'utf8');
        if (typeof limit === 'string') assert.equal(text, limit);
        else assert.match(text, limit);
      });
    }
  });
}

test('a deletion on a full disk, cut off before its commit: the directory is unchanged', async (t) => {
  await using place = await crashPlace();
  const deaths = await place.deaths('block logins', {});
  // The last one has to release the reserve on SQLite's disk.
  assert.ok(deaths.length >= (onPostgres ? 3 : 4), `only ${deaths.length} steps`);
  await place.nextStart();
  for (const { step, last, directory } of deaths) {
    await t.test(`after step ${step}, ${last}: it can be used`, async () => {
      const row = await place.row(directory?.id ?? '');
      assert.ok(row && place.isApplied(row));
    });
  }
});

test('delete, cut off after any step: nothing of it is left, and its neighbour is unchanged', async (t) => {
  await using place = await crashPlace();
  const files = (name: string): string => join(place.paths.jail(name), 'files', 'data.csv');
  const deaths = await place.deaths('delete', {
    before: async ({ sftp_username }) => writeFileSync(files(sftp_username), 'data'),
  });
  assert.ok(deaths.length >= 5, `only ${deaths.length} steps`);
  await place.deaths('nothing', {
    together: 1,
    before: async ({ sftp_username }) => writeFileSync(files(sftp_username), 'theirs'),
  });
  const live = place.database.db.selectFrom('directories').selectAll().where('deleted_at', 'is', null);
  const neighbour = await live.executeTakeFirstOrThrow();
  await place.nextStart();
  for (const { step, last, directory } of deaths) {
    await t.test(`after step ${step}, ${last}: no credential, no jail, no row`, async () => {
      assert.ok(directory);
      assert.deepEqual(place.credentials(directory.sftp_username), []);
      assert.equal(existsSync(place.paths.jail(directory.sftp_username)), false);
      assert.equal(await place.row(directory.id), undefined);
    });
  }
  assert.ok(place.isApplied(neighbour));
  assert.equal(readFileSync(files(neighbour.sftp_username), 'utf8'), 'theirs');
});

test('an account that is deleted, cut off after any step: it goes with its key and its directory, whose neighbour stays', async (t) => {
  await using place = await crashPlace();
  const issuer = { database: place.database, clock: systemClock(), config: { environment: 'live' } } as const;
  const neighbour = await place.directory();
  const deaths = await place.deaths('delete account', {
    before: async ({ id }) => {
      const account = await createAccount(issuer, { name: 'Going', plan: 'pro' });
      await createKey(issuer, { accountId: account.id }, { role: 'admin', name: 'its' });
      await place.database.db.updateTable('directories').set({ account_id: account.id }).where('id', '=', id).execute();
    },
  });
  assert.ok(deaths.length >= 6, `only ${deaths.length} steps`);
  assert.ok(deaths[0]?.last.startsWith('commit: update accounts'));
  const { db } = place.database;
  const left = () => db.selectFrom('accounts').select('id').where('name', '=', 'Going').execute();
  assert.ok((await left()).length > 0, 'some are not gone before the start');
  await place.nextStart(async () => (await left()).length === 0);
  assert.deepEqual(await db.selectFrom('api_keys').select('id').execute(), []);
  for (const { step, last, directory } of deaths) {
    await t.test(`after step ${step}, ${last}: no credential, no jail, no row`, async () => {
      assert.ok(directory);
      assert.deepEqual(place.credentials(directory.sftp_username), []);
      assert.equal(existsSync(place.paths.jail(directory.sftp_username)), false);
      assert.equal(await place.row(directory.id), undefined);
      const audited = await db
        .selectFrom('audit')
        .select(['action', 'key_id'])
        .where('directory_id', '=', directory.id)
        .execute();
      assert.deepEqual(audited, [{ action: 'delete', key_id: 'operator:alice' }]);
    });
  }
  const stayed = await place.row(neighbour.id);
  assert.ok(stayed && place.isApplied(stayed));
});

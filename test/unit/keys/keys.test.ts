/** API keys: their format, and that a typing error is detected without a query; when they were last used. */
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { createBackground } from '../../../src/foundation/base/background.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { createAccount } from '../../../src/rules/accounts/accounts.ts';
import { createKey, USED_API_KEYS } from '../../../src/rules/api-keys/api-keys.ts';
import { generateKey, isWellFormedKey } from '../../../src/rules/api-keys/authenticate.ts';
import { createLastUsed } from '../../../src/rules/api-keys/last-used.ts';
import { refuseWrites } from '../../support/refused-writes.ts';
import { scratch } from '../../support/scratch.ts';
import { setClock } from '../../support/set-clock.ts';

import assert from 'node:assert/strict';

test('keys are the prefix, 32 base62 characters and 6 of checksum', () => {
  for (const environment of ['live', 'test'] as const) {
    const key = generateKey(environment);
    assert.match(key, new RegExp(`^svc_${environment}_[0-9A-Za-z]{38}$`));
    assert.ok(isWellFormedKey(key, environment));
    assert.ok(!isWellFormedKey(key, environment === 'live' ? 'test' : 'live'));
  }
});

test('any one wrong character and any two neighbours swapped are noticed', () => {
  const key = generateKey('live');
  for (let i = 0; i < key.length; i += 1) {
    const other = key[i] === 'x' ? 'y' : 'x';
    assert.ok(!isWellFormedKey(key.slice(0, i) + other + key.slice(i + 1), 'live'), `character ${i}`);
    const swapped =
      key.slice(0, i) +
      key
        .slice(i, i + 2)
        .split('')
        .toReversed()
        .join('') +
      key.slice(i + 2);
    if (swapped !== key) assert.ok(!isWellFormedKey(swapped, 'live'), `characters ${i} and ${i + 1}`);
  }
  for (const text of ['', key.slice(1), ` ${key}`, `${key}\n`, key.slice(0, -1)])
    assert.ok(!isWellFormedKey(text, 'live'));
});

// When keys were last used: written in the background, and nothing is lost by a write that fails.

test('a write that fails is counted and repeated, with later uses kept; the close writes what is left', async () => {
  using place = scratch();
  mkdirSync(place.config.stateDir, { recursive: true });
  const database = await openDatabase(place.config.database);
  const clock = setClock();
  const issuer = { database, clock, config: { environment: 'live' } } as const;
  const { id: accountId } = await createAccount(issuer, { name: 'Test', plan: 'pro' });
  const key = async (name: string): Promise<string> =>
    (await createKey(issuer, { accountId }, { role: 'admin', name })).id;
  const [once, twice, late] = [await key('once'), await key('twice'), await key('late')];
  const usedAt = async (id: string) =>
    (await database.db.selectFrom('api_keys').select('last_used_at').where('id', '=', id).executeTakeFirst())
      ?.last_used_at;
  const background = createBackground(createLog('silent'));
  const lastUsed = createLastUsed({ database, clock, background, of: USED_API_KEYS });

  const allow = await refuseWrites(database.db, 'update on api_keys');
  lastUsed.note(once);
  lastUsed.note(twice);
  await lastUsed.flush();
  assert.equal(background.failures().get('last-used'), 1);
  const moved = clock.now();
  lastUsed.note(twice);
  await allow();
  await lastUsed.flush();
  const [first, second] = [await usedAt(once), await usedAt(twice)];
  assert.ok(first && second && first < moved && second > moved, `${first} ${moved} ${second}`);

  lastUsed.note(late);
  await lastUsed.close();
  assert.ok(Number(await usedAt(late)) > second);
  await database.close();
});

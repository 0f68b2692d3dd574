/** API keys: their format, and that a typing error is detected without a query. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generateKey, isWellFormedKey } from '../../../src/rules/keys/key-format.ts';

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

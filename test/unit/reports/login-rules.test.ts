/** Each refusal that sshd's log explains has a remedy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loginChecks, remedyFor } from '../../../src/operating/reports/login-rules.ts';

const OPEN = { suspended: 0, expires_at: null, allowed_networks: '[]', auth_mode: 'password' } as const;

test('only a setting that lets nobody in says so', () => {
  const closed = (changes: Partial<Parameters<typeof loginChecks>[0]>, keys = 0) =>
    loginChecks({ ...OPEN, ...changes }, { keys, now: 10 }).flatMap(({ lets }, index) =>
      lets === 'nobody' ? [index] : [],
    );
  assert.deepEqual(closed({}), []);
  assert.deepEqual(closed({ suspended: 1 }), [0]);
  assert.deepEqual([closed({ expires_at: 10 }), closed({ expires_at: 11 })], [[1], []]);
  assert.deepEqual(closed({ allowed_networks: '["10.0.0.0/8"]' }), []);
  assert.deepEqual([closed({ auth_mode: 'public_key' }), closed({ auth_mode: 'public_key' }, 1)], [[4], []]);
  assert.deepEqual(closed({ auth_mode: 'both' }), []);
});

test('a refusal has a remedy by its reason, whatever was right before it', () => {
  const key = 'SHA256:AAAA (ED25519)';
  for (const [refusal, words] of [
    ['wrong password', /new password/],
    [`unknown key ${key}`, /Add this key/],
    ['right password, but suspended', /Resume/],
    [`right key ${key}, but expired`, /later expiry/],
    ['right password, but not from an allowed network', /allowed networks/],
    ['too many connections', /limit of connections/],
    ['too many tries on one connection', /IdentitiesOnly/],
    ['no password was sent, and no known key', /Check which key/],
    ['the client signs with ssh-rsa, which sshd refuses as too weak: update the client', /update the client/],
  ] as const)
    assert.match(remedyFor(refusal) ?? '', words, refusal);
  assert.equal(remedyFor('right password, but not admitted'), undefined);
});

/** The certificate: made once, kept, private; the operator's own pair; what cannot be used is said in a line. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { OperatorError } from '../../src/errors.ts';
import { loadTlsPair } from '../../src/http/tls.ts';
import { scratch } from '../support/scratch.ts';

test('a self-signed pair is made at the first start only, its key readable by its owner alone', async () => {
  using place = scratch();
  const { tls } = place.config;
  const made = await loadTlsPair(tls);
  const certificate = new X509Certificate(made.cert);
  for (const name of ['localhost', hostname()]) assert.equal(certificate.checkHost(name), name);
  assert.equal(certificate.checkIP('127.0.0.1'), '127.0.0.1');
  assert.deepEqual(certificate.publicKey.asymmetricKeyDetails, { namedCurve: 'prime256v1' });
  assert.equal(statSync(tls.key).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(dirname(tls.cert)).sort(), ['cert.pem', 'key.pem']);
  assert.deepEqual(await loadTlsPair(tls), made);

  rmSync(tls.key);
  assert.notDeepEqual(await loadTlsPair(tls), made, 'half a pair is replaced');
});

test('a pair that cannot be used is refused with one line, and never replaced', async () => {
  using place = scratch();
  await loadTlsPair(place.config.tls);
  const tls = { ...place.config.tls, selfSigned: false };
  writeFileSync(tls.key, 'broken');
  await assert.rejects(loadTlsPair(tls), (error) => error instanceof OperatorError && error.message.includes(tls.key));
  assert.equal(readFileSync(tls.key, 'utf8'), 'broken');
  rmSync(tls.cert);
  await assert.rejects(loadTlsPair(tls), OperatorError);
});

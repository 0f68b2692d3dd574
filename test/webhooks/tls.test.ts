/** HTTPS receivers: their certificate has to be one that Node trusts, for the name or address in the URL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { loadTlsPair } from '../../src/http/certificate.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { outboxPlace } from './outbox-place.ts';

test('a webhook goes over HTTPS to a trusted receiver, and to no other', async () => {
  using tlsPlace = scratch();
  const { cert, key } = await loadTlsPair(tlsPlace.config.tls);
  await using place = await outboxPlace({ retryDelays: [60, 60, 60] });
  await using target = await receiver({ tls: { cert: cert.toString(), key: key.toString() } });
  const dispatcher = place.start();

  const distrusted = await place.put(target.url);
  dispatcher.wake();
  await place.until(distrusted, 'waiting');
  assert.match((await place.attempts(distrusted))[0]?.error ?? '', /self-signed certificate/);
  assert.equal(target.requests.length, 0);

  setDefaultCACertificates([...getCACertificates(), cert.toString()]);
  const trusted = await place.put(target.url);
  dispatcher.wake();
  await place.until(trusted, 'delivered');
  assert.equal(target.requests.length, 1);

  // The same server under a name that its certificate does not have.
  const elsewhere = await place.put(target.url.replace('127.0.0.1', '127.0.0.2'));
  dispatcher.wake();
  await place.until(elsewhere, 'waiting');
  assert.equal((await place.attempts(elsewhere))[0]?.status, null);
  assert.equal(target.requests.length, 1);
});

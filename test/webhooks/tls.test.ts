/** HTTPS receivers: their certificate has to be one that Node trusts, for the name or address in the URL. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  createServer as createTlsServer,
  getCACertificates,
  setDefaultCACertificates,
  type TlsOptions,
} from 'node:tls';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { loadTlsPair } from '../../src/interfaces/http/certificate.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { trustedWith } from '../../src/deliveries/webhooks/start.ts';
import { outOfDate } from '../support/out-of-date.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { outboxPlace } from './outbox-place.ts';

import assert from 'node:assert/strict';

test('a receiver whose authority is in BERTH_WEBHOOK_CA is trusted; a file that cannot be read is logged in one line', async () => {
  using tlsPlace = scratch();
  const { tls } = tlsPlace.config;
  const { cert, key } = await loadTlsPair(tls);
  await using target = await receiver({ tls: { cert: cert.toString(), key: key.toString() } });
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const status = async (ca: string): Promise<number | null> => {
    const sender = createSender(guardedAgents(['127.0.0.0/8'], undefined, trustedWith(ca, log)), '1');
    const secrets = { webhook_secret: 'secret', next_webhook_secret: null, upload_id: null };
    const delivery = { id: '1', url: target.url, body: Buffer.from('{}'), ...secrets };
    const answer = await sender.send(delivery, systemClock().now(), new AbortController().signal);
    sender.close();
    return answer.status;
  };
  assert.equal(await status(tls.cert), 204);
  assert.equal(lines.length, 0);
  assert.equal(await status('/nowhere.pem'), null);
  assert.match(lines.join(), /BERTH_WEBHOOK_CA: \/nowhere.pem cannot be used/);
});

test('a certificate with very many names does not fill the database', async () => {
  using folder = scratch();
  const names = Array.from({ length: 300 }, (_, i) => `DNS:name-${i}.a-long-subdomain.example.com`).join(',');
  const [key, cert] = [join(folder.dir, 'key.pem'), join(folder.dir, 'cert.pem')];
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=x'];
  execFileSync('openssl', [...request, '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', cert]);
  await using target = await receiver({ tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') } });
  const agents = guardedAgents(['127.0.0.0/8'], async () => ['127.0.0.1'], trustedWith(cert, createLog('silent')));
  const sender = createSender(agents, '1');
  const secrets = { webhook_secret: 'secret', next_webhook_secret: null, upload_id: null };
  const url = target.url.replace('127.0.0.1', 'receiver.test');
  const delivery = { id: '1', url, body: Buffer.from('{}'), ...secrets };
  const { error } = await sender.send(delivery, systemClock().now(), new AbortController().signal);
  sender.close();
  assert.match(error ?? '', /does not match certificate's altnames/);
  assert.equal(error?.length, 500);
});

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

test('a receiver that breaks off TLS, before or after the request, fails one attempt, for a reason that can be read', async () => {
  using tlsPlace = scratch();
  const { tls } = tlsPlace.config;
  const { cert, key } = await loadTlsPair(tls);
  const quiet = (socket: Socket): Socket => socket.on('error', () => undefined);
  const plain = (react: (socket: Socket) => void): Server =>
    createServer((socket) => void quiet(socket).once('data', () => react(socket)));
  const secure = (options: TlsOptions, react: (socket: Socket) => void): Server =>
    createTlsServer({ cert, key, ...options }, (socket) => void quiet(socket).once('data', () => react(socket)));
  const asks = { requestCert: true, rejectUnauthorized: true };
  const CLOSED = 'the receiver closed the connection before it had answered';
  const cases: readonly (readonly [Server, string | RegExp])[] = [
    // A fatal alert, handshake_failure (RFC 8446, 6).
    [
      plain((socket) => socket.write(Buffer.from([21, 3, 3, 0, 2, 2, 40]))),
      'TLS failed: ssl/tls alert handshake failure',
    ],
    [
      plain((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
      /does not answer in TLS at this port\. If the port is for HTTP, the URL has to begin with http:/,
    ],
    [plain((socket) => socket.end()), CLOSED],
    [plain((socket) => socket.resetAndDestroy()), CLOSED],
    // In TLS 1.3 this alert arrives after the request has been sent.
    [secure(asks, () => undefined), 'TLS failed: tlsv13 alert certificate required'],
    [secure({ ...asks, maxVersion: 'TLSv1.2' }, () => undefined), 'TLS failed: ssl/tls alert handshake failure'],
    [secure({}, (socket) => socket.end()), CLOSED],
    [secure({}, (socket) => socket.destroy()), CLOSED],
    [secure({}, (socket) => socket.end('HTTP/1.1 200 O')), CLOSED],
  ];
  const sender = createSender(
    guardedAgents(['127.0.0.0/8'], undefined, trustedWith(tls.cert, createLog('silent'))),
    '1',
  );
  const secrets = { webhook_secret: 'secret', next_webhook_secret: null, upload_id: null };
  const answers = cases.map(async ([server]) => {
    let connections = 0;
    server.on('connection', () => (connections += 1)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const delivery = { id: '1', url, body: Buffer.from('{}'), ...secrets };
    const { status, error } = await sender.send(delivery, systemClock().now(), new AbortController().signal);
    server.close();
    return [connections, status, error];
  });
  for (const [index, [connections, status, error]] of (await Promise.all(answers)).entries()) {
    const reason = cases[index]?.[1] ?? '';
    assert.deepEqual([connections, status], [1, null]);
    if (typeof reason === 'string') assert.equal(error, reason);
    else assert.match(String(error), reason);
  }
  sender.close();
});

test('a certificate without its intermediate one, from another authority or out of date, is named with a remedy of berth’s', async () => {
  using place = scratch();
  const { dir } = place;
  const openssl = (...words: string[]): unknown => execFileSync('openssl', words, { cwd: dir, stdio: 'ignore' });
  const request = (name: string): unknown =>
    openssl(
      'req',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.csr`,
      '-subj',
      `/CN=${name}`,
    );
  writeFileSync(join(dir, 'ca.ext'), 'basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n');
  writeFileSync(join(dir, 'leaf.ext'), 'subjectAltName=IP:127.0.0.1\n');
  openssl(
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    'root.key',
    '-out',
    'root.pem',
    '-subj',
    '/CN=root',
  );
  const sign = (name: string, by: string, extension: string, ...dates: string[]): unknown =>
    openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      `${by}.pem`,
      '-CAkey',
      `${by}.key`,
      '-CAcreateserial',
      '-extfile',
      extension,
      '-out',
      `${name}.pem`,
      ...dates,
    );
  request('middle');
  sign('middle', 'root', 'ca.ext', '-days', '9');
  request('leaf');
  sign('leaf', 'middle', 'leaf.ext', '-days', '9');
  request('old');
  sign('old', 'root', 'leaf.ext', ...outOfDate());
  const read = (name: string): string => readFileSync(join(dir, name), 'utf8');
  const trusting = trustedWith(join(dir, 'root.pem'), createLog('silent'));
  for (const [cert, key, trusted, reason] of [
    [read('leaf.pem'), 'leaf.key', true, /^TLS failed: the issuer of .* send its intermediate certificates/],
    [read('leaf.pem') + read('middle.pem'), 'leaf.key', false, /^TLS failed: the authority of .* is not trusted/],
    [
      read('leaf.pem') + read('middle.pem') + read('root.pem'),
      'leaf.key',
      false,
      /^TLS failed: the authority of .*BERTH_WEBHOOK_CA/,
    ],
    [read('old.pem'), 'old.key', true, /^TLS failed: the receiver's certificate has expired/],
    [read('leaf.pem') + read('middle.pem'), 'leaf.key', true, /^null$/],
  ] as const) {
    await using target = await receiver({ tls: { cert, key: read(key) } });
    const sender = createSender(guardedAgents(['127.0.0.0/8'], undefined, trusted ? trusting : undefined), '1');
    const delivery = {
      id: '1',
      url: target.url,
      body: Buffer.from('{}'),
      webhook_secret: 's',
      next_webhook_secret: null,
      upload_id: null,
    };
    const { error } = await sender.send(delivery, systemClock().now(), new AbortController().signal);
    assert.match(String(error), reason);
    assert.doesNotMatch(String(error), /--use-system-ca|NODE_/);
    sender.close();
  }
});

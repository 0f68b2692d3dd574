/** The certificate: made once, kept and private; the operator's own pair; an unusable pair is reported in one line. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { dirname } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { createBackground } from '../../src/foundation/base/background.ts';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { followCertificate, loadTlsPair, type TlsPair } from '../../src/interfaces/http/certificate.ts';
import { startHttpServer } from '../../src/interfaces/http/server.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { clientAddress } from '../../src/interfaces/web/client-address.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

test('a self-signed pair is made at the first start only, its key readable by its owner alone', async () => {
  using place = scratch({ BERTH_SFTP_HOST: 'sftp.example.com' });
  const { tls } = place.config;
  const made = await loadTlsPair(tls);
  const certificate = new X509Certificate(made.cert);
  for (const name of ['localhost', hostname(), 'sftp.example.com']) assert.equal(certificate.checkHost(name), name);
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address));
  // OpenSSL writes IPv6 out in full.
  for (const address of own.filter((each) => each.includes('.'))) assert.equal(certificate.checkIP(address), address);
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

test('a renewed pair serves the next connection, a broken one changes nothing, and open connections go on', async () => {
  using place = scratch();
  using renewed = scratch();
  const { tls } = place.config;
  const first = await loadTlsPair(tls);
  const second = await loadTlsPair(renewed.config.tls);
  await using parts = new AsyncDisposableStack();
  const reports: string[] = [];
  const log = createLog('info', { write: (line) => void reports.push(line) });
  const server = await startHttpServer({
    app: { fetch: () => new Response('here') },
    host: '127.0.0.1',
    port: 0,
    tls: first,
  });
  parts.defer(() => server.close(100));
  const background = createBackground(log);
  const follower = followCertificate({
    tls,
    background,
    log,
    first: { pair: first, trouble: '' },
    use: server.useCertificate,
    intervalMs: 10,
  });
  parts.defer(() => follower.close());
  const open = await greet(server.port);
  assert.ok(shows(open, first));

  // As certbot does: links that are swapped, the key a moment after its certificate.
  swapLink(tls.cert, renewed.config.tls.cert);
  swapLink(tls.key, renewed.config.tls.key);
  await until('the new pair is served', async () => {
    using socket = await greet(server.port);
    return shows(socket, second);
  });

  rmSync(tls.key);
  writeFileSync(tls.key, first.key); // of the other certificate
  await until('the broken pair is reported', () => reports.some((line) => line.includes('cannot be used')));
  follower.inspect();
  assert.equal(reports.filter((line) => line.includes('cannot be used')).length, 1, 'once');
  const later = await greet(server.port);
  assert.ok(shows(later, second));

  for (const socket of [open, later]) {
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    assert.match(await text(socket), /here/);
  }
});

test('by default it listens on IPv4 and IPv6, and a client has one address by either', async () => {
  using place = scratch();
  const asked: string[] = [];
  const address = clientAddress([]);
  const server = await startHttpServer({
    app: { fetch: (_, { incoming }) => (asked.push(address(incoming)), new Response('here')) },
    ...readConfig({ BERTH_API_PORT: '0' }).api,
    tls: await loadTlsPair(place.config.tls),
  });
  for (const host of ['127.0.0.1', '::1']) {
    const socket = connect({ port: server.port, host, rejectUnauthorized: false });
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    assert.match(await text(socket), /here/);
  }
  await server.close(100);
  assert.deepEqual(asked, ['127.0.0.1', '::1']);
});

async function greet(port: number): Promise<TLSSocket & Disposable> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  return Object.assign(socket, { [Symbol.dispose]: () => void socket.destroy() });
}

function shows(socket: TLSSocket, { cert }: TlsPair): boolean {
  return socket.getPeerX509Certificate()?.fingerprint256 === new X509Certificate(cert).fingerprint256;
}

function swapLink(path: string, target: string): void {
  symlinkSync(target, `${path}.new`);
  renameSync(`${path}.new`, path);
}

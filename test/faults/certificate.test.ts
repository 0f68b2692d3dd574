/** A restart with a certificate and a key that do not fit each other: the last good pair, or all but the API. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { checkCertificate, checkServe } from '../../src/operating/doctor/checks/running.ts';
import { firstPair, loadTlsPair } from '../../src/interfaces/http/certificate.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { outOfDate } from '../support/out-of-date.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { crashPlace } from './crash-place.ts';

/** The certificate that a handshake shows, or the error that ends it. */
async function certificateAt(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerX509Certificate()?.toString() ?? '';
  } catch (error) {
    return String(error);
  } finally {
    socket.destroy();
  }
}

test('a key of another certificate: the last good pair serves; without one all but the API starts, until it is repaired', async () => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  using other = scratch();
  await loadTlsPair(other.config.tls);
  const { tls } = place.config;
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const says = (text: string): boolean => lines.some((line) => line.includes(text));
  const start = async () => {
    const service = await startService(place.config, { log });
    return Object.assign(service, { [Symbol.asyncDispose]: () => service.close() });
  };

  await (await start()).close();
  const good = { cert: readFileSync(tls.cert, 'utf8'), key: readFileSync(tls.key) };
  assert.equal(statSync(tls.lastGood).mode & 0o777, 0o600);
  copyFileSync(other.config.tls.key, tls.key);
  {
    await using service = await start();
    assert.equal(await certificateAt(service.port), good.cert);
    assert.ok(says('the last good one stays until it is repaired'));
    const [finding] = await checkCertificate(place.config, systemClock());
    assert.equal(finding?.verdict, 'fail');
    assert.match(finding.remedy ?? '', /belong together; the last good pair stays in use/);
  }

  rmSync(tls.lastGood);
  await place.enqueue(await place.directory());
  await using service = await start();
  assert.match(await certificateAt(service.port), /handshake failure/);
  assert.ok(says('the API waits for a certificate that can be used'));
  const config = { ...place.config, api: { ...place.config.api, port: service.port } };
  const [serve] = await checkServe(config, systemClock());
  assert.match(serve?.text ?? '', /its API has no certificate/);
  await service.covered;
  await hook.next();

  writeFileSync(tls.key, good.key);
  service.reload();
  await until('the API is there', async () => (await certificateAt(service.port)) === good.cert);
  assert.equal(statSync(tls.lastGood).mode & 0o777, 0o600);
});

test('a new certificate that has expired is refused while a good one is in use, and the metric says so', async () => {
  await using hook = await receiver();
  await using place = await crashPlace(hook.url);
  const { tls } = place.config;
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const config = { ...place.config, metrics: { host: '127.0.0.1', port: 0 } };
  const service = await startService(config, { log });
  await using _closing = { [Symbol.asyncDispose]: () => service.close() };
  const good = readFileSync(tls.cert, 'utf8');
  const refused = async (): Promise<string | undefined> => {
    const text = await (await fetch(`http://127.0.0.1:${service.metricsPort}/metrics`)).text();
    return /^berth_certificate_refused (\d)$/m.exec(text)?.[1];
  };
  assert.equal(await refused(), '0');
  makeExpired(tls);
  service.reload();
  assert.equal(await refused(), '1');
  assert.ok(lines.some((line) => /has expired.*the previous one stays in use/.test(line)));
  assert.equal(await certificateAt(service.port), good);
});

/** Replaces the pair by one whose time is over. */
function makeExpired(tls: { readonly cert: string; readonly key: string }): void {
  const request = ['req', '-new', '-nodes', '-newkey', 'rsa:2048', '-subj', '/CN=berth', '-keyout', tls.key];
  const input = execFileSync('openssl', request, { stdio: 'pipe' });
  const signed = ['x509', '-req', '-signkey', tls.key, ...outOfDate(), '-out', tls.cert];
  execFileSync('openssl', signed, { input, stdio: 'pipe' });
}

test('at a start with a certificate that has expired, a previous one that has not is used; without one, a line says so', async () => {
  using place = scratch();
  const tls = { ...place.config.tls, selfSigned: false };
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const { cert: good } = await loadTlsPair(place.config.tls);
  await firstPair(tls, log);
  makeExpired(tls);
  const first = await firstPair(tls, log);
  assert.equal(String(new X509Certificate(first.pair?.cert ?? '')), String(new X509Certificate(good)));
  assert.match(first.trouble, /cert\.pem has expired/);
  rmSync(tls.lastGood);
  const second = await firstPair(tls, log);
  assert.deepEqual([second.pair?.cert, second.trouble], [readFileSync(tls.cert), '']);
  assert.match(lines.at(-1) ?? '', /the certificate has expired: clients refuse it until it is renewed/);
});

test('a self-signed certificate is made again when BERTH_SFTP_HOST is not in it, and then stays', async () => {
  using place = scratch();
  const { tls } = place.config;
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const { cert: before } = await loadTlsPair(tls);
  const renamed = { ...tls, name: 'sftp.example.com' };
  assert.deepEqual((await firstPair({ ...renamed, isNameSet: false }, log)).pair?.cert, before);
  assert.deepEqual((await firstPair({ ...renamed, selfSigned: false }, log)).pair?.cert, before);
  const { pair } = await firstPair(renamed, log);
  const made = new X509Certificate(pair?.cert ?? '');
  assert.equal(made.checkHost('sftp.example.com'), 'sftp.example.com');
  assert.equal(lines.filter((line) => line.includes('clients have to trust this one')).length, 1);
  assert.deepEqual((await firstPair(renamed, log)).pair?.cert, pair?.cert);
});

test('a certificate below a file: the start and the doctor name the setting and the file', async () => {
  using place = scratch();
  const { config } = place;
  for (const [name, file] of [
    ['BERTH_TLS_CERT', 'cert'],
    ['BERTH_TLS_KEY', 'key'],
  ] as const) {
    await loadTlsPair(config.tls);
    const tls = { ...config.tls, selfSigned: false, [file]: join(config.tls[file], 'x.pem') };
    const problem = `${name}: ${config.tls[file]} is not a folder: choose another place`;
    await assert.rejects(loadTlsPair(tls), (error: Error) => error.message.endsWith(problem));
    const [finding] = await checkCertificate({ ...config, tls }, systemClock());
    assert.deepEqual([finding?.verdict, finding?.text], ['fail', problem]);
  }
});

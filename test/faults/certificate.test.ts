/** A restart with a certificate and a key that do not fit each other: the last good pair, or all but the API. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { systemClock } from '../../src/clock.ts';
import { checkCertificate } from '../../src/doctor/checks/certificate.ts';
import { checkServe } from '../../src/doctor/checks/running.ts';
import { loadTlsPair } from '../../src/http/certificate.ts';
import { createLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { crashPlace } from './crash-place.ts';

/** The certificate that a handshake shows, or the error that ends it. */
async function shown(port: number): Promise<string> {
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

test('a key of another certificate: the last good pair serves; without one all but the API starts, until it is mended', async () => {
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
    assert.equal(await shown(service.port), good.cert);
    assert.ok(says('the last good one stays until it is mended'));
    const [finding] = await checkCertificate(place.config, systemClock());
    assert.equal(finding?.verdict, 'fail');
    assert.match(finding.remedy ?? '', /belong together; the last good pair stays in use/);
  }

  rmSync(tls.lastGood);
  await place.enqueue(await place.directory());
  await using service = await start();
  assert.match(await shown(service.port), /handshake failure/);
  assert.ok(says('the API waits for a certificate that can be used'));
  const config = { ...place.config, api: { ...place.config.api, port: service.port } };
  const [serve] = await checkServe(config, systemClock());
  assert.match(serve?.text ?? '', /its API has no certificate/);
  await service.covered;
  await hook.next();

  writeFileSync(tls.key, good.key);
  service.reload();
  await until('the API is there', async () => (await shown(service.port)) === good.cert);
  assert.equal(statSync(tls.lastGood).mode & 0o777, 0o600);
});

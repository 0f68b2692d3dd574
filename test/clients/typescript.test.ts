/** The npm package: its types are those of openapi.json, and an application works with it. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { apiClient } from '../support/api-client.ts';
import { issueKey, startBerth } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { document } from '../support/openapi.ts';
import { sftp } from '../support/openssh-client.ts';
import { scratch } from '../support/scratch.ts';
import { CLIENT, clientPackage } from './client-package.ts';

const TYPES = join(CLIENT, 'src/api.ts');

test('its types are those of openapi.json (BERTH_WRITE=1 makes them anew)', () => {
  const generator = join(CLIENT, 'node_modules/openapi-typescript/bin/cli.js');
  const types = execFileSync(
    process.execPath,
    [generator, '--empty-objects-unknown', '--default-non-nullable', 'false'],
    {
      input: JSON.stringify(document),
      encoding: 'utf8',
      stdio: ['pipe', 'pipe', 'ignore'],
    },
  );
  if (process.env['BERTH_WRITE'] !== undefined) writeFileSync(TYPES, types);
  assert.equal(readFileSync(TYPES, 'utf8'), types);
});

test('an application makes a directory, is told of a file, fetches it and acknowledges it', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const key = await issueKey(berth.config);
  const port = await freePort();
  const application = spawn(process.execPath, [join(clientPackage(place), 'examples/application.ts')], {
    env: {
      BERTH_URL: `https://127.0.0.1:${berth.service().port}`,
      BERTH_KEY: key,
      PORT: String(port),
      NODE_EXTRA_CA_CERTS: berth.config.tls.cert,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const lines = createInterface(application.stdout)[Symbol.asyncIterator]();
    const next = async (): Promise<string> => String((await lines.next()).value);
    const login = JSON.parse(await next()) as { username: string; password: string };
    writeFileSync(join(place.dir, 'report.csv'), 'id,amount');
    const { code, output } = await sftp(place.dir, { ...login, port: berth.sshd.port }, ['put report.csv']);
    assert.equal(code, 0, output);
    assert.equal(await next(), 'fetched report.csv: id,amount');
    using client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key });
    const { json } = await client.send('GET', '/directories?external_id=customer-42');
    const { data } = json as { data: { storage_bytes: number }[] };
    assert.deepEqual(
      data.map(({ storage_bytes }) => storage_bytes),
      [0],
      'it was acknowledged',
    );
  } finally {
    application.kill();
    await once(application, 'exit');
  }
});

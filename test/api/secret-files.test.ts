/** Under a umask of 000, no command leaves a secret that others can read, not even backup and restore. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, lstatSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import type { Config } from '../../src/foundation/base/config.ts';
import { freePort } from '../support/free-port.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

async function berth(place: Scratch, ...args: string[]): Promise<string> {
  const env = { ...nodeEnvironment, ...place.environment };
  return (await promisify(execFile)(process.execPath, [MAIN, ...args], { env })).stdout;
}

/** The files with secrets below a folder. Only their owner may read them. */
function holders(folder: string, secrets: readonly string[]): string[] {
  return globSync('**/*', { cwd: folder }).filter((name) => {
    const stats = lstatSync(join(folder, name));
    if (!stats.isFile()) return false;
    const text = readFileSync(join(folder, name), 'latin1');
    if (!text.includes('PRIVATE KEY') && !secrets.some((secret) => text.includes(secret))) return false;
    assert.equal((stats.mode & 0o7777).toString(8), '600', name);
    return true;
  });
}

test('prepare, account, key, serve, backup and restore under umask 000', sqliteOnly, async (t) => {
  const umask = process.umask(0);
  t.after(() => process.umask(umask));
  const port = await freePort();
  using place = scratch({ BERTH_API_PORT: String(port), BERTH_SFTP_PORT: String(await freePort()) });
  using restored = scratch();
  const config: Config = { ...place.config, api: { host: '127.0.0.1', port } };

  await berth(place, 'prepare');
  const { id: account } = JSON.parse(await berth(place, 'account', 'create', 'A', '--plan', 'pro', '--json')) as {
    id: string;
  };
  const { key } = JSON.parse(await berth(place, 'key', 'create', account, '--role', 'admin', '--json')) as {
    key: string;
  };
  const serve = await startServe(config, place.environment);
  using client = clientOf(config, key);
  const { json } = await client.send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
  const { data } = json as { data: { sftp_password: string; webhook_secret: string } };
  const archives = join(place.dir, 'archives');
  mkdirSync(archives);
  await berth(place, 'backup', join(archives, 'berth.tar'));
  assert.equal(await serve.kill('SIGTERM'), 0);
  await berth(restored, 'restore', join(archives, 'berth.tar'));

  const sqlite = new Sqlite(config.databaseFile, { readonly: true });
  t.after(() => sqlite.close());
  const hash = sqlite.prepare<[], string>('select password_hash from directories').pluck().get() ?? '';
  const secrets = [key, data.sftp_password, data.webhook_secret, hash];
  assert.ok(secrets.every((secret) => secret.length >= 20));
  const archived = holders(archives, secrets);
  assert.deepEqual(archived, ['berth.tar']);
  for (const { dir } of [place, restored]) {
    const found = holders(dir, secrets);
    for (const known of [/state\/berth\.db$/, /tls\/key\.pem$/, /hostkeys\/\w+_key$/]) {
      assert.ok(
        found.some((name) => known.test(name)),
        `${String(known)} is among ${found.join(' ')} in ${dir}`,
      );
    }
  }
});

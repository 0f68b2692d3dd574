/**
 * `npm run torture -- many-files [--files 200000] [--folder 50000]`: how long API requests take while berth looks at a
 * directory with that many files, while the one large folder is renamed and removed, with a file that grows all the time.
 */
import assert from 'node:assert/strict';
import { chownSync, lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/db/open.ts';
import { freePort } from '../support/free-port.ts';
import { issueKey } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { startSshd } from '../support/sshd.ts';

const { values } = parseArgs({
  options: { files: { type: 'string', default: '200000' }, folder: { type: 'string', default: '50000' } },
});
const [files, large] = [Number(values.files), Number(values.folder)];

using place = scratch({ BERTH_LOG_LEVEL: 'error' });
await using sshd = await startSshd(place);
const port = await freePort();
const config = { ...sshd.config, api: { host: '127.0.0.1', port }, rateLimit: 1e6 };
const environment = {
  ...place.environment,
  BERTH_API_PORT: String(port),
  BERTH_SFTP_PORT: String(sshd.port),
  BERTH_RATE_LIMIT: '1000000',
};
const key = await issueKey(config);
let serve = await startServe(config, environment);
using client = clientOf(config, key);
const made = await client.send('POST', '/directories', { json: { directory: { name: 'many' } } });
const {
  id = '',
  sftp_username: username = '',
  sftp_password: password = '',
} = (made.json as { data: Record<string, string> }).data;
await serve.kill('SIGTERM');

const root = `${config.jailDir}/${username}/files`;
const { uid } = lstatSync(root);
for (let count = 0, folder = 0; count < files; folder++) {
  const path = join(root, `d${folder}`);
  mkdirSync(path);
  chownSync(path, uid, uid);
  for (let left = folder === 0 ? large : 1000; left > 0 && count < files; left--, count++)
    writeFileSync(join(path, `${count}`), '');
}
await using connection = await connect({ port: sshd.port, username, password });
const session = await rawSftp(connection);
const handle = await session.open('growing', CREATE_ANEW);
assert.ok(handle);
const over = new AbortController();
const growing = (async () => {
  for (let at = 0n; !over.signal.aborted; at += 1000n) {
    await session.request(FXP.WRITE, handle, at, Buffer.alloc(1000));
    await wait(10);
  }
})();

const phases: Record<string, { requests: number; p50: number; p99: number; most: number; seconds: number }> = {};
/** Asks for the directory every few ms until it is so. */
async function during(phase: string, isSo: () => Promise<boolean>): Promise<void> {
  const times: number[] = [];
  const began = performance.now();
  const done = new AbortController();
  const checking = until(phase, isSo, 900).finally(() => done.abort());
  while (!done.signal.aborted) {
    const sent = performance.now();
    await client.send('GET', `/directories/${id}`);
    times.push(performance.now() - sent);
    await wait(5);
  }
  await checking;
  const sorted = times.toSorted((a, b) => a - b);
  const quantile = (share: number): number =>
    Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10;
  phases[phase] = {
    requests: times.length,
    p50: quantile(0.5),
    p99: quantile(0.99),
    most: quantile(1),
    seconds: Math.round((performance.now() - began) / 1000),
  };
}

serve = await startServe(config, environment);
const database = await openDatabase(config.databaseFile);
/** Asked of the database itself, seldom: the list of all uploads over the API is not what is measured. */
async function rows(prefix: string): Promise<number> {
  await wait(500);
  const { count } = await database.db
    .selectFrom('files')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('path', '>', Buffer.from(prefix))
    .where('path', '<', Buffer.from(`${prefix}~`))
    .executeTakeFirstOrThrow();
  return count;
}
await during('scan', async () => (await rows('d')) === files);
await session.rename('d0', 'e0');
await during('folder renamed', async () => (await rows('e0/')) === large);
rmSync(join(root, 'e0'), { recursive: true });
await during('folder removed', async () => (await rows('e0/')) === 0);
over.abort();
await growing;
await database.close();
process.stdout.write(`${JSON.stringify({ files, large, phases })}\n`);
await serve.kill('SIGTERM');
for (const [phase, { p99 }] of Object.entries(phases)) assert.ok(p99 < 50, `${phase}: p99 ${p99} ms`);

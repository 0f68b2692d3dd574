/**
 * `npm run torture`: clients upload while `berth serve`, sshd or both are killed at random moments. Reports at the end what
 * was lost, what was sent twice, and whether rows and disk agree; fails if anything was lost.
 *
 *   node test/torture/crash.ts [--files 2000] [--kills 30] [--target serve|sshd|both]
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { globSync, lstatSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { runSshd, startSshd } from '../support/sshd.ts';
import { type Finished, upload } from './uploader.ts';

const CLIENTS = 4;
/** Leases of killed processes end after 20 s, and a retry waits at most 2 s here. */
const SETTLE_SECONDS = 90;

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '2000' },
    kills: { type: 'string', default: '30' },
    target: { type: 'string', default: 'serve' },
  },
});
const files = Number(values.files);
const kills = Number(values.kills);
const targets = values.target === 'both' ? ['serve', 'sshd'] : [values.target];

const started = performance.now();
using place = scratch({ BERTH_LOG_LEVEL: 'fatal' });
await using hook = await receiver();
let sshd = await startSshd(place);
const { config, environment } = await fixedPorts(place, sshd, { BERTH_WEBHOOK_RETRY_DELAYS: '0.5,1,2' });
const key = await issueKey(config);
let serve = await startServe(config, environment);

const directory = await makeDirectory();
const finished = new Map<string, Finished>();
const uploaded = new AbortController();
// A kill and the start after it take 2 to 3 s: the uploads have to go on as long as the kills.
const pause = Math.round((kills * 3200 * CLIENTS) / files);
const uploads = Array.from({ length: CLIENTS }, (_, client) =>
  upload(
    { port: sshd.port, ...directory },
    { name: `client${client}`, count: Math.ceil(files / CLIENTS), pause },
    finished,
  ),
);
const allUploaded = Promise.all(uploads).finally(() => uploaded.abort());

let killed = 0;
while (!uploaded.signal.aborted && killed < kills) {
  await wait(randomInt(200, 2500));
  const target = targets[randomInt(targets.length)];
  if (target === 'serve') {
    await serve.kill('SIGKILL');
    serve = await startServe(config, environment);
  } else {
    await sshd.kill();
    sshd = await runSshd(config);
  }
  killed += 1;
  process.stderr.write(`\r${killed}/${kills} kills, ${finished.size}/${files} files finished `);
}
await allUploaded;
process.stderr.write('\nall uploaded; waiting until everything is announced\n');

const database = await openDatabase(config.database);
await until('the outbox is empty and every file is recorded', isSettled, SETTLE_SECONDS).catch(() => undefined);
await wait(12_000); // stable files are found now, if they were missed, and sessions that died without a line
await until('the outbox is empty', isSettled, SETTLE_SECONDS).catch(() => undefined);

const result = await judge();
process.stdout.write(`${JSON.stringify(result)}\n`);
await database.close();
await serve.kill('SIGTERM');
await sshd[Symbol.asyncDispose]();
assert.equal(result.lost, 0, 'finished uploads were not announced');
assert.ok(result.duplicates < files / 100, 'one in a hundred or more came twice');
assert.ok(values.target === 'both' || result.announced_incomplete === 0, 'half a file was announced');
assert.ok(result.most_attempts <= 4);
assert.ok(result.rows_equal_disk && result.storage_equals_disk);

async function makeDirectory(): Promise<{ id: string; username: string; password: string; files: string }> {
  using client = clientOf(config, key);
  const made = await client.send('POST', '/directories', { json: { directory: { name: 'torture' } } });
  const { data } = made.json as { data: Record<string, string> };
  const { id = '', sftp_username: username = '', sftp_password: password = '' } = data;
  await client.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: hook.url } } });
  return { id, username, password, files: `${config.jailDir}/${username}/files` };
}

async function isSettled(): Promise<boolean> {
  const open = await database.db
    .selectFrom('deliveries')
    .select('id')
    .where('state', 'not in', ['delivered', 'failed'])
    .limit(1)
    .execute();
  const rows = await database.db.selectFrom('files').select('path').where('state', '=', 'uploaded').execute();
  const recorded = new Set(rows.map(({ path }) => path.toString()));
  return open.length === 0 && [...finished].every(([name, { sizes }]) => sizes.length === 0 || recorded.has(name));
}

function versionsOf(sizes: (file: Finished) => readonly number[]): Set<string> {
  return new Set([...finished].flatMap(([name, file]) => sizes(file).map((size) => `${name} ${size}`)));
}

async function judge() {
  const announced = hook.requests.map(({ body }) => {
    const { filename, size_bytes: size } = JSON.parse(body.toString()) as { filename: string; size_bytes: number };
    return { filename, version: `${filename} ${size}` };
  });
  const versions = new Set(announced.map(({ version }) => version));
  const deliveries = new Set(hook.requests.map(({ headers }) => String(headers['webhook-id'])));
  const seen = new Set<string>();
  const announcedAnew = [];
  for (const [index, { version }] of announced.entries()) {
    const id = String(hook.requests[index]?.headers['webhook-id']);
    if (seen.has(version) && !seen.has(id)) announcedAnew.push(version);
    seen.add(version).add(id);
  }
  if (announcedAnew.length > 0) process.stderr.write(`announced twice: ${announcedAnew.join(', ')}\n`);
  const known = versionsOf(({ sizes }) => sizes);
  const whole = versionsOf(({ begun }) => begun);
  const incomplete = [...versions].filter((version) => !whole.has(version));
  if (incomplete.length > 0) process.stderr.write(`announced incomplete: ${incomplete.join(', ')}\n`);
  const lost = [...finished].filter(
    ([name, { sizes }]) => sizes.length > 0 && !versions.has(`${name} ${sizes.at(-1)}`),
  );
  const onDisk = new Map(
    globSync('**/*', { cwd: directory.files })
      .map((name) => [name, lstatSync(`${directory.files}/${name}`)] as const)
      .filter(([, stats]) => stats.isFile())
      .map(([name, stats]) => [relative('.', name), stats.size]),
  );
  const rows = await database.db.selectFrom('files').select(['path', 'size_bytes']).execute();
  const { storage_bytes: storage } = await database.db
    .selectFrom('directories')
    .select('storage_bytes')
    .executeTakeFirstOrThrow();
  const { most } = await database.db
    .selectFrom('deliveries')
    .select(({ fn }) => fn.max('attempts').as('most'))
    .executeTakeFirstOrThrow();
  return {
    target: values.target,
    files: finished.size,
    kills: killed,
    seconds: Math.round((performance.now() - started) / 1000),
    lost: lost.length,
    duplicates: announced.length - versions.size,
    /**
     * The same delivery once more, under the same `webhook-id`: it was under way when the process died, and berth cannot
     * know whether it had arrived. Receivers recognize it by that id.
     */
    repeated: announced.length - deliveries.size,
    /** Another delivery of the same version, which no receiver can tell from another upload. */
    announced_anew: announcedAnew.length,
    /** Whole, but sshd died before it could tell the client so. */
    announced_unconfirmed: [...versions].filter((version) => whole.has(version) && !known.has(version)).length,
    /**
     * Half-written: session and berth died, so nothing distinguishes this file from one that an administrator copied in.
     */
    announced_incomplete: incomplete.length,
    most_attempts: most,
    rows_equal_disk:
      rows.length === onDisk.size && rows.every(({ path, size_bytes }) => onDisk.get(path.toString()) === size_bytes),
    storage_equals_disk: storage === [...onDisk.values()].reduce((sum, size) => sum + size, 0),
    node: process.version,
    kernel: readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim(),
  };
}

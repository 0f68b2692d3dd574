/**
 * `npm run torture -- killed-api`: API clients create, change and delete directories while `berth serve` is killed or asked to
 * stop at random moments. Each client repeats a request that got no answer, as a real one would. Fails unless every answer
 * still holds at the end: what was created exists once, what was deleted is gone, and the doctor finds nothing wrong.
 *
 *   node test/torture/killed-api.ts [--kills 30] [--clients 4]
 */
import assert from 'node:assert/strict';
import { randomInt, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { ApiAnswer } from '../support/api-client.ts';
import { issueKey } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { madeKeys } from '../support/made-keys.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '30' }, clients: { type: 'string', default: '4' } },
});
const kills = Number(values.kills);

using place = scratch({ BERTH_LOG_LEVEL: 'fatal' });
await using sshd = await startSshd(place);
const { config, environment } = await fixedPorts(place, sshd, { BERTH_RATE_LIMIT: '100000' });
const key = await issueKey(config);
let serve = await startServe(config, environment);

interface Known {
  readonly name: string;
  readonly username: string;
  /** Whether its create had an Idempotency-Key. */
  readonly isKeyed: boolean;
  isDeleted: boolean;
  fingerprints: number;
}

const known = new Map<string, Known>();
/** How often a create without an Idempotency-Key was sent. */
const unkeyed = new Map<string, number>();
const wrong: string[] = [];
const counts: Record<string, number> = {};
const over = new AbortController();

/** Sends a request until it gets an answer. */
async function answered(
  method: string,
  path: string,
  options: { json?: unknown; headers?: Record<string, string> },
  sent: () => void = () => undefined,
): Promise<ApiAnswer> {
  for (let tries = 1; ; tries += 1) {
    try {
      sent();
      using client = clientOf(config, key);
      const answer = await client.send(method, path, options);
      if (![409, 429, 500, 503].includes(answer.status)) return answer;
      if (answer.status === 500) wrong.push(`${method} ${path}: 500`);
    } catch {
      counts['unanswered'] = (counts['unanswered'] ?? 0) + 1;
    }
    await wait(Math.min(50 * tries, 500));
  }
}

async function create(): Promise<void> {
  const name = randomUUID();
  const isKeyed = randomInt(3) > 0;
  const headers = isKeyed ? { 'idempotency-key': randomUUID() } : {};
  const json = { directory: { name } };
  const answer = await answered('POST', '/directories', { json, headers }, () =>
    unkeyed.set(name, (unkeyed.get(name) ?? 0) + 1),
  );
  if (answer.status !== 201) return void wrong.push(`create: ${answer.status} ${answer.text}`);
  const { id = '', sftp_username: username = '' } = (answer.json as { data: Record<string, string> }).data;
  if (known.has(id)) wrong.push(`${id} was created twice`);
  known.set(id, { name, username, isKeyed, isDeleted: false, fingerprints: 0 });
}

async function act(): Promise<void> {
  const live = [...known].filter(([, { isDeleted }]) => !isDeleted);
  const [id, directory] = live[randomInt(Math.max(live.length, 1))] ?? [];
  if (id === undefined || !directory || randomInt(3) === 0) return create();
  const path = `/directories/${id}`;
  const headers = { 'idempotency-key': randomUUID() };
  if (randomInt(3) === 0) {
    directory.isDeleted = true;
    const { status } = await answered('DELETE', path, {});
    if (![204, 404].includes(status)) wrong.push(`delete: ${status}`);
  } else {
    const [{ line }] = madeKeys(1);
    const { status, text } = await answered('POST', `${path}/public_keys`, { json: { public_key: line }, headers });
    if (status === 201) directory.fingerprints += 1;
    // Another client may have deleted it.
    else if (status !== 404 || !directory.isDeleted) wrong.push(`add a key: ${status} ${text}`);
  }
}

async function work(): Promise<void> {
  while (!over.signal.aborted) {
    await act();
    counts['requests'] = (counts['requests'] ?? 0) + 1;
  }
}

const working = Promise.all(Array.from({ length: Number(values.clients) }, work));
for (let killed = 1; killed <= kills; killed += 1) {
  await wait(randomInt(100, 2000));
  await serve.kill(randomInt(3) === 0 ? 'SIGTERM' : 'SIGKILL');
  serve = await startServe(config, environment);
  process.stderr.write(`\r${killed}/${kills} kills, ${counts['requests'] ?? 0} requests `);
}
over.abort();
await working;
await wait(3000);

const database = await openDatabase(config.database);
const rows = await database.reads
  .selectFrom('directories')
  .select(['id', 'name'])
  .where('deleted_at', 'is', null)
  .execute();
const keys = await database.reads.selectFrom('public_keys').select(['directory_id', 'fingerprint']).execute();
await database.close();
const live = new Set(rows.map(({ id }) => id));
const named = Map.groupBy(rows, ({ name }) => name);
const keysOf = Map.groupBy(keys, ({ directory_id: id }) => id);
for (const [id, { name, username, isKeyed, isDeleted, fingerprints }] of known) {
  if (live.has(id) === isDeleted) wrong.push(`${id} is ${isDeleted ? 'there, though it was deleted' : 'gone'}`);
  if (existsSync(join(config.jailDir, username)) === isDeleted)
    wrong.push(`${id}: its jail is ${isDeleted ? 'there' : 'gone'}`);
  const most = isKeyed ? 1 : (unkeyed.get(name) ?? 0);
  const count = named.get(name)?.length ?? 0;
  if (count > most) wrong.push(`${name} was created ${count} times`);
  const has = keysOf.get(id)?.length ?? 0;
  if (!isDeleted && has !== fingerprints) wrong.push(`${id} has ${has} keys, not ${fingerprints}`);
}
const doctor = await runCommand(environment, 'doctor');
const failed = doctor.stdout.split('\n').filter((line) => line.startsWith('fail'));
await serve.kill('SIGTERM');
process.stdout.write(`${JSON.stringify({ kills, ...counts, created: known.size, live: live.size, wrong, failed })}\n`);
assert.deepEqual(wrong, []);

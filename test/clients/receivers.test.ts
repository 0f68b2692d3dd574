/** The example receivers, each in a process of its own, get real webhooks, and an attacker's versions of them. */
import assert from 'node:assert/strict';
import { type ChildProcessByStdio, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { signatureHeaders } from '../../src/deliveries/webhooks/signature.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { type Received, receiver } from '../support/receiver.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type OutboxPlace, outboxPlace } from '../webhooks/outbox-place.ts';
import { sharedClientPackage } from './client-package.ts';

const CLIENTS = fileURLToPath(new URL('../../clients/', import.meta.url));

const clientPackage = sharedClientPackage();

interface Example {
  readonly language: string;
  /** What has to be on the machine. */
  readonly runtime: readonly string[];
  /** The command, made ready. */
  command(place: Scratch, port: number): readonly string[];
}

const EXAMPLES: readonly Example[] = [
  {
    language: 'TypeScript',
    runtime: [process.execPath, '--version'],
    command: () => [process.execPath, join(clientPackage(), 'examples/receiver.ts')],
  },
  {
    language: 'Python',
    runtime: ['python3', '--version'],
    command: () => ['python3', join(CLIENTS, 'python/receiver.py')],
  },
  {
    language: 'PHP',
    runtime: ['php', '--version'],
    command: (_, port) => ['php', '-q', '-S', `127.0.0.1:${port}`, join(CLIENTS, 'php/receiver.php')],
  },
  {
    language: 'Go',
    runtime: ['go', 'version'],
    command(place) {
      const program = join(place.dir, 'receiver');
      execFileSync('go', ['build', '-o', program, '.'], { cwd: join(CLIENTS, 'go') });
      return [program];
    },
  },
];

/** Secrets that were made by an older berth, by this one, and by a customer. */
const OLD = 'giY3ZcXKHfnTXGw5A5DhhpXLUE3Ryg_-';
const NEW = 'sT6PA/UMC5aJ5/jkyusWpeoifpbaOd4D';
const OWN = "a customer's own words";

for (const { language, runtime, command } of EXAMPLES) {
  const [program = '', ...args] = runtime;
  const skip = spawnSync(program, args).status !== 0 && `${program} is not on this machine`;
  test(`${language}: a signed webhook is accepted once, and nothing else is`, { skip }, async () => {
    using place = scratch();
    await using outbox = await outboxPlace();
    const port = await freePort();
    const prepared = command(place, port);
    {
      await using example = await startExample(prepared, { place, port, secret: OLD });
      await takesOnce(example, outbox);
      await refuses(example, await delivered(outbox, 'hostile.csv', { webhook_secret: OLD }));
    }
    const both = await delivered(outbox, 'both.csv', { webhook_secret: OLD, next_webhook_secret: NEW });
    const after = await delivered(outbox, 'after.csv', { webhook_secret: NEW });
    const own = await delivered(outbox, 'own.csv', { webhook_secret: OWN });
    for (const [secret, statuses] of [
      [OLD, [204, 401, 401]],
      [NEW, [204, 204, 401]],
      [OWN, [401, 401, 204]],
    ] as const) {
      await using example = await startExample(prepared, { place, port, secret });
      assert.deepEqual(
        [await example.send(both), await example.send(after), await example.send(own)],
        statuses,
        `with the secret ${secret}`,
      );
    }
    await tellsDirectories(outbox, (secrets) => startExample(prepared, { place, port, ...secrets }));
  });
}

/** With the account's secret and a directory's: each signs its own webhooks, and a test is not an upload. */
async function tellsDirectories(
  outbox: OutboxPlace,
  start: (secrets: { secret: string; secrets: string }) => Promise<RunningExample>,
): Promise<void> {
  const own = await delivered(outbox, 'own.csv', { webhook_secret: OWN });
  const { directory_id } = JSON.parse(own.body.toString()) as { directory_id: string };
  const shared = signedBy(NEW, own, { directory_id: 'another' });
  const forged = signedBy(NEW, own, { directory_id });
  const trial = signedBy(OWN, own, { directory_id, filename: 'test.txt', test: true });
  {
    await using example = await start({ secret: NEW, secrets: JSON.stringify({ [directory_id]: OWN }) });
    const other = signedBy(OWN, own, { directory_id, filename: 'other.txt', event: 'file.deleted' });
    assert.equal(
      await example.send({ ...other, headers: { ...other.headers } }),
      204,
      'an event that it does not know',
    );
    const answers = [own, shared, forged, trial].map((request) => example.send(request));
    assert.deepEqual(
      await Promise.all(answers),
      [204, 204, 401, 204],
      "the account's secret does not open the directory's",
    );
    await example.send(signedBy(OWN, own, { directory_id, filename: 'last.csv' }));
    await until('they are worked on', () => example.output().includes('last.csv'));
    assert.doesNotMatch(example.output(), /test\.txt|other\.txt/, 'neither a test nor another event is an upload');
  }
  await using example = await start({ secret: '', secrets: JSON.stringify({ [directory_id]: OWN }) });
  assert.deepEqual([await example.send(own), await example.send(shared)], [204, 401], 'no secret for that directory');
}

/** The request with other fields, signed again. */
function signedBy(secret: string, { headers, body, ...rest }: Received, fields: object): Received {
  const changed = Buffer.from(JSON.stringify({ ...(JSON.parse(body.toString()) as object), ...fields }));
  const signed = { id: randomUUID(), body: changed, webhook_secret: secret, next_webhook_secret: null };
  return { ...rest, body: changed, headers: { ...headers, ...signatureHeaders(signed, Date.now() * 1000) } };
}

async function takesOnce(example: RunningExample, outbox: OutboxPlace): Promise<void> {
  const first = await delivered(outbox, 'in/ünï "1".csv', { webhook_secret: OLD });
  const again = [await example.send(first), await example.send(first), await example.send(first)];
  assert.deepEqual(again, [204, 204, 204]);
  const next = await delivered(outbox, 'next.csv', { webhook_secret: OLD });
  assert.equal(await example.send(next), 204);
  await until('the work is done', () => example.output().includes('next.csv'));
  assert.equal(example.output(), 'uploaded in/ünï "1".csv\nuploaded next.csv\n');
}

async function refuses(example: RunningExample, request: Received): Promise<void> {
  const before = example.output();
  const forged = Buffer.from(request.body.toString().replace('.csv', '.exe'));
  assert.equal(await example.send(request, { body: forged }), 401, 'another body');
  assert.equal(await example.send(request, { body: Buffer.from('{') }), 401, 'no JSON');
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    assert.equal(await example.send(request, { headers: { [name]: undefined } }), 401, `no ${name}`);
    const value = String(request.headers[name]).replace(
      /^(..[^]*)(.)(.)$/,
      (_, head: string, a: string, b: string) => head + (a === '1' ? '2' : '1') + b,
    );
    assert.equal(await example.send(request, { headers: { [name]: value } }), 401, `another ${name}`);
  }
  assert.equal(await example.send(request, { headers: { 'webhook-timestamp': '1700000000' } }), 401, 'an old one');
  assert.equal(await example.send(request, { headers: { 'webhook-signature': 'v1,' } }), 401, 'an empty one');
  assert.equal(example.output(), before, 'none of them is being handled');
}

/** A request as berth sends it, for a directory with these secrets. */
async function delivered(
  outbox: OutboxPlace,
  filename: string,
  secrets: { webhook_secret: string; next_webhook_secret?: string },
): Promise<Received> {
  await using hook = await receiver();
  const { directory } = await outbox.event(hook.url);
  await outbox.database.db.updateTable('directories').set(secrets).where('id', '=', directory.id).execute();
  const dispatcher = outbox.start();
  const id = await outbox.put(hook.url, { filename });
  dispatcher.wake();
  const request = await hook.next();
  await outbox.until(id, 'delivered');
  return request;
}

interface RunningExample extends AsyncDisposable {
  /** The status of its answer to that request, with these changes. */
  send(request: Received, changes?: { body?: Buffer; headers?: Record<string, string | undefined> }): Promise<number>;
  /** What it has printed about its work. */
  output(): string;
}

async function startExample(
  [program = '', ...args]: readonly string[],
  { place, port, secret, secrets = '{}' }: { place: Scratch; port: number; secret: string; secrets?: string },
): Promise<RunningExample> {
  const child: ChildProcessByStdio<null, Readable, null> = spawn(program, args, {
    env: {
      PATH: process.env['PATH'],
      PYTHONDONTWRITEBYTECODE: '1',
      WEBHOOK_SECRET: secret,
      WEBHOOK_SECRETS: secrets,
      WEBHOOK_FOLDER: join(place.dir, `inbox-${randomBytes(4).toString('hex')}`),
      PORT: String(port),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const url = `http://127.0.0.1:${port}/`;
  await until('the receiver listens', () =>
    fetch(url, { method: 'POST' }).then(
      ({ status }) => status === 401,
      () => false,
    ),
  );
  return {
    async send({ body, headers }, changes = {}) {
      const kept = {
        ...headers,
        ...changes.headers,
        connection: undefined,
        host: undefined,
        'content-length': undefined,
      };
      const sent = Object.entries(kept).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, String(value)] as [string, string]],
      );
      const answer = await fetch(url, { method: 'POST', headers: sent, body: new Uint8Array(changes.body ?? body) });
      await answer.arrayBuffer();
      return answer.status;
    },
    output: () => output.replace(/^listening\n/, ''),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

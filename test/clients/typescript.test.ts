/** The npm package: its types are those of openapi.json, and an application works with it. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { apiClient } from '../support/api-client.ts';
import { issueKey, startBerth, type TestBerth } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { document } from '../support/openapi.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { CLIENT, sharedClientPackage } from './client-package.ts';

const TYPES = join(CLIENT, 'src/api.ts');

const clientPackage = sharedClientPackage();

test('its types are those of openapi.json (BERTH_WRITE=1 writes them)', () => {
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

/** The application, behind a proxy that may answer in berth's place. */
async function startApplication(place: Scratch, berth: TestBerth, interfere: Interfere = () => undefined) {
  await using parts = new AsyncDisposableStack();
  const key = await issueKey(berth.config);
  const ca = readFileSync(berth.config.tls.cert);
  const requests: string[] = [];
  const proxy = createServer((incoming, outgoing) => {
    const asked = `${incoming.method} ${incoming.url?.replace(/^.*\/directories/, '')}`;
    requests.push(asked);
    const { method, url: path, headers } = incoming;
    const onward = request({ host: '127.0.0.1', port: berth.service().port, ca, method, path, headers }, (answer) => {
      if (interfere(asked, outgoing, answer) === 'done') return void answer.resume();
      outgoing.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(onward);
  });
  parts.defer(() => proxy.closeAllConnections());
  parts.defer(() => void proxy.close());
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const port = await freePort();
  const inbox = join(place.dir, 'inbox');
  const application = spawn(process.execPath, [join(clientPackage(), 'examples/application.ts')], {
    env: {
      BERTH_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      BERTH_KEY: key,
      PORT: String(port),
      INBOX: inbox,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  parts.defer(async () => {
    application.kill();
    if (application.exitCode === null && application.signalCode === null) await once(application, 'exit');
  });
  const output = createInterface(application.stdout)[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await output.next()).value);
  const login = JSON.parse(await next()) as { username: string; password: string };
  const client = parts.use(apiClient({ port: berth.service().port, ca, key }));
  const owned = parts.move();
  return {
    requests,
    webhooks: `http://127.0.0.1:${port}/`,
    /** Uploads files with these names and contents. */
    async upload(files: Readonly<Record<string, string>>) {
      const commands = Object.entries(files).map(([name, content], i) => {
        writeFileSync(join(place.dir, `upload-${i}`), content);
        return `put upload-${i} ${name}`;
      });
      const { code, output: said } = await sftp(place.dir, { ...login, port: berth.sshd.port }, commands);
      assert.equal(code, 0, said);
    },
    /** The listing of `count` files, and the content of each. */
    async fetched(count: number): Promise<Record<string, string>> {
      const files: Record<string, string> = {};
      for (let i = 0; i < count; i += 1) {
        const [, name = '', kept = ''] = /^fetched (.*) as (.*)$/.exec(await next()) ?? [];
        files[name] = readFileSync(kept, 'utf8');
      }
      return files;
    },
    parts: () => readdirSync(inbox).filter((name) => name.endsWith('.part')),
    async storage(): Promise<number> {
      const { json } = await client.send('GET', '/directories?external_id=customer-42');
      const [directory, ...others] = (json as { data: { storage_bytes: number }[] }).data;
      assert.deepEqual(others, []);
      return directory?.storage_bytes ?? -1;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** May answer a request itself, in the place of berth's answer to it. */
type Interfere = (asked: string, outgoing: ServerResponse, answer: IncomingMessage) => 'done' | undefined;

test('an application makes a directory, gets the webhook of a file, fetches it and acknowledges it', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  await using application = await startApplication(place, berth);
  await application.upload({ 'report.csv': 'id,amount' });
  assert.deepEqual(await application.fetched(1), { 'report.csv': 'id,amount' });
  await until('it is acknowledged', async () => (await application.storage()) === 0);
});

test('the application loses no file, whatever berth answers and wherever a connection breaks', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const content = 'x'.repeat(300_000);
  const troubles: Interfere[] = [
    (_, outgoing) => (outgoing.writeHead(429).end('{"error":"Rate limit exceeded"}'), 'done'),
    (_, outgoing) => (outgoing.writeHead(500).end('{"error":"Internal server error"}'), 'done'),
    (_, outgoing) => (outgoing.destroy(), 'done'),
    (_, outgoing) => (
      outgoing.writeHead(200, { 'content-length': content.length }).write('xx', () => outgoing.destroy()),
      'done'
    ),
    // A proxy that ends such an answer as if it were whole.
    (_, outgoing) => (outgoing.writeHead(200).end('xx'), 'done'),
  ];
  const left = { content: [...troubles], upload: troubles.slice(0, 1), removal: troubles.slice(1, 3) };
  const interfere: Interfere = (asked, ...about) => {
    const of = asked.endsWith('/content') ? 'content' : /^GET .*\/uploads\/[^/]+$/.test(asked) ? 'upload' : 'removal';
    if (of === 'removal' && !asked.startsWith('DELETE ')) return undefined;
    return left[of].shift()?.(asked, ...about);
  };
  await using application = await startApplication(place, berth, interfere);
  await application.upload({ 'a.csv': content, 'b.csv': 'b' });
  assert.deepEqual(await application.fetched(2), { 'a.csv': content, 'b.csv': 'b' });
  await until('both are acknowledged', async () => (await application.storage()) === 0);
  await until('all trouble is over', () => Object.values(left).every(({ length }) => length === 0));
  assert.deepEqual(application.parts(), []);
});

test('the application removes just the file that it has fetched, and outlives requests that are not from berth', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  let isLast = false;
  // Nothing but the third can be fetched for now.
  const known = new Map<string, string>();
  await using application = await startApplication(place, berth, (asked, outgoing, answer) => {
    const [, upload = ''] = /^GET .*\/uploads\/([^/]+)$/.exec(asked) ?? [];
    if (upload === '' || isLast) return undefined;
    known.set(upload, String(answer.statusCode));
    outgoing.writeHead(503).end('{"error":"Service unavailable"}');
    return 'done';
  });
  const forged = {
    'webhook-id': 'x',
    'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
    'webhook-signature': 'v1,x',
  };
  for (const headers of [{}, forged, { ...forged, 'webhook-upload-id': '../../etc' }]) {
    const { status } = await fetch(application.webhooks, { method: 'POST', headers, body: '{}' });
    assert.equal(status, 401);
  }
  const large = await fetch(application.webhooks, { method: 'POST', body: 'x'.repeat(2 << 20) }).catch(() => undefined);
  assert.ok(large === undefined || large.status === 400);
  await application.upload({ order1: '1', order10: '10', order100: '100' });
  await until('it has heard of all three', () => known.size === 3);
  assert.equal(await application.storage(), 6, 'nothing is removed that was not fetched');
  isLast = true;
  assert.deepEqual(await application.fetched(3), { order1: '1', order10: '10', order100: '100' });
  await until('all are acknowledged', async () => (await application.storage()) === 0);
  const removals = application.requests.filter((asked) => asked.startsWith('DELETE '));
  assert.equal(new Set(removals).size, 3);
});

/**
 * A key of named directories, at every endpoint of openapi.json: no answer contains anything about another directory, and
 * requests for one are answered as if it did not exist.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { fc } from '../support/fast-check.ts';
import { apiClient, type Send } from '../support/api-client.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { document } from '../support/openapi.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

const publicKey = (letter: string): string => `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${letter.repeat(42)}A`;

/** What an answer could show of a directory, by what stands for it in a request. */
type Traits = Readonly<
  Record<
    'id' | 'upload_id' | 'delivery_id' | 'fingerprint' | 'path' | 'name' | 'username' | 'external' | 'secret',
    string
  >
>;

/** With an upload, its delivery, a key and an event. */
async function furnished(berth: TestBerth, name: string): Promise<Traits> {
  const external = `${name}-external`;
  const { id, username, secret, login } = await berth.directory({
    name,
    external_id: external,
    metadata: { of: `${name}-metadata` },
  });
  const public_key = publicKey(name === 'Mine' ? 'A' : 'B');
  await berth.send('POST', `/directories/${id}/public_keys`, { json: { public_key } });
  await using connection = await berth.connect({ login } as never);
  const sftp = await connection.sftp();
  const path = `${name}-file.csv`;
  await promisify(sftp.writeFile.bind(sftp) as (name: string, data: string, done: (e?: Error) => void) => void)(
    path,
    'a',
  );
  const deliveries = async () => dataOf<{ id: string }[]>(await berth.send('GET', `/directories/${id}/deliveries`));
  await until('it is announced', async () => (await deliveries()).length > 0);
  const [upload] = dataOf<{ id: string }[]>(await berth.send('GET', `/directories/${id}/uploads`));
  const [key] = dataOf<{ fingerprint: string }[]>(await berth.send('GET', `/directories/${id}/public_keys`));
  const [delivery] = await deliveries();
  assert.ok(upload && key && delivery);
  const things = { upload_id: upload.id, delivery_id: delivery.id, fingerprint: key.fingerprint, path };
  return { id, ...things, name, username, external, secret };
}

/** Nobody's. */
const unknown = (): Traits => ({
  id: randomUUID(),
  upload_id: randomUUID(),
  delivery_id: randomUUID(),
  fingerprint: `SHA256:${'A'.repeat(43)}`,
  path: 'Nobodys-file.csv',
  name: 'Nobodys',
  username: 'nobodys-xxxxxxxx',
  external: 'Nobodys-external',
  secret: 'q83vASNFZ4mrze8BI0VniavN7wEjRWeJ',
});

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
);

/** The directory and the objects that the path names, and the filters of its query. */
interface Aim {
  readonly directory: Traits;
  readonly thing: Traits;
  readonly filter: Traits | undefined;
}

function requestOf(operation: (typeof operations)[number], { directory, thing, filter }: Aim) {
  const { path, parameters = [], requestBody } = operation;
  const named = path
    .replace('/api/v1', path === '/healthz' ? '/' : '')
    .replace('{id}', directory.id)
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(thing[name as keyof Traits] ?? thing.id));
  const values: Readonly<Record<string, string | undefined>> = filter
    ? { external_id: filter.external, filename: filter.path, prefix: filter.name, after: filter.id }
    : {};
  const query = parameters.flatMap(({ name = '' }) => (values[name] === undefined ? [] : [[name, values[name]]]));
  const search = query.length === 0 ? '' : `?${new URLSearchParams(query as [string, string][]).toString()}`;
  const example = requestBody?.content['application/json']?.example;
  const isBytes = requestBody?.content['application/octet-stream'] !== undefined;
  return {
    path: named + search,
    options: isBytes ? { body: 'bytes' } : example === undefined ? {} : { json: example },
  };
}

test('a key of named directories finds nothing of any other, at any endpoint', { timeout: 240_000 }, async (t) => {
  using place = scratch();
  await using berth = await startBerth(place);
  const [mine, other] = [await furnished(berth, 'Mine'), await furnished(berth, 'Hidden')];
  const client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key: berth.key });
  using _ = client;
  const sends: Send[] = [];
  for (const role of ['admin', 'member'])
    for (const read_only of [false, true]) {
      const json = { name: 'scoped', role, read_only, directories: [mine.id] };
      sends.push(client.as(dataOf<{ key: string }>(await berth.send('POST', '/api_keys', { json })).key));
    }

  const hidden = [...Object.values(other), 'Hidden', 'hidden'];
  let asked = 0;
  /** @returns the answer, without its name. */
  async function ask(send: Send, operation: (typeof operations)[number], aim: Aim): Promise<string> {
    const { path, options } = requestOf(operation, aim);
    const { status, text, headers } = await send(operation.method, path, options);
    asked += 1;
    const { 'x-request-id': __, date: ___, ...rest } = headers;
    const answer = `${status} ${JSON.stringify(rest)} ${text}`;
    const own = `${path} ${JSON.stringify(options)}`;
    for (const word of hidden)
      assert.ok(!answer.includes(word) || own.includes(word), `${operation.method} ${path} tells ${word}: ${answer}`);
    if (path.startsWith(`/directories/${other.id}`))
      assert.deepEqual([status, text], [404, '{"error":"Directory not found"}'], `${operation.method} ${path}`);
    return answer;
  }

  // Deleting it comes last.
  const all = operations.toSorted(
    (a, b) => Number(a.operationId === 'deleteDirectory') - Number(b.operationId === 'deleteDirectory'),
  );
  for (const operation of all)
    for (const send of sends)
      for (const thing of [other, mine])
        for (const filter of [undefined, other]) await ask(send, operation, { directory: other, thing, filter });

  const nobody = unknown();
  const isAlike = async (send: Send, operation: (typeof operations)[number], aim: Aim): Promise<void> => {
    const twin = (traits: Traits): Traits => (traits === other ? nobody : traits);
    const instead = { directory: twin(aim.directory), thing: twin(aim.thing), filter: aim.filter && twin(aim.filter) };
    const [one, two] = [await ask(send, operation, aim), await ask(send, operation, instead)];
    // What a request names comes back in `Link` and in the names of its fields.
    const plain = Object.keys(nobody).reduce(
      (text, trait) => text.replaceAll(other[trait as keyof Traits], nobody[trait as keyof Traits]),
      one,
    );
    assert.equal(plain, two, operation.operationId);
  };
  const reading = operations.filter(({ method }) => method === 'GET');
  const aims = fc.record({
    operation: fc.constantFrom(...reading),
    send: fc.constantFrom(...sends),
    directory: fc.constantFrom(mine, other),
    thing: fc.constantFrom(mine, other),
    filter: fc.constantFrom(undefined, mine, other),
  });
  await fc.assert(
    fc.asyncProperty(aims, async ({ operation, send, ...aim }) => isAlike(send, operation, aim)),
    { numRuns: 300 },
  );

  const [send = berth.send] = sends;
  const ids = (answer: Awaited<ReturnType<Send>>, field: string): unknown[] =>
    dataOf<Record<string, unknown>[]>(answer).map((row) => row[field]);
  assert.deepEqual(ids(await send('GET', '/directories'), 'id'), [mine.id]);
  assert.deepEqual(ids(await send('GET', '/events'), 'directory_id'), [mine.id]);
  assert.equal((await send('GET', `/directories/${mine.id}/uploads/${mine.upload_id}/content`)).text, 'a');
  assert.deepEqual(new Set(ids(await berth.send('GET', '/events'), 'directory_id')), new Set([mine.id, other.id]));
  for (const path of ['/api_keys', '/webhook']) assert.equal((await send('GET', path)).status, 403);
  assert.equal((await send('POST', '/directories', { json: { directory: { name: 'x' } } })).status, 403);

  // Own changes, and each with another's thing.
  for (const operation of all.filter(({ method }) => method !== 'GET'))
    for (const thing of [other, mine]) await ask(send, operation, { directory: mine, thing, filter: undefined });
  assert.equal((await berth.send('GET', `/directories/${mine.id}`)).status, 404, 'it was allowed to delete this one');
  const after = dataOf<{ name: string }>(await berth.send('GET', `/directories/${other.id}`));
  assert.equal(after.name, other.name);
  assert.equal((await berth.uploads({ id: other.id } as never)).length, 1);
  t.diagnostic(`${asked} requests at ${operations.length} operations`);
});

/** What callers get while a directory's home is unavailable, and what the home does before it accepts logins again. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepare } from '../../src/service/prepare.ts';
import type { ApiAnswer } from '../support/api-client.ts';
import { assertWithin } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { created, letsIn, type NodesPlace, nodesPlace, type TestNode, URL_OF_B } from './nodes-place.ts';

/** In ms. */
const LONGEST = 10_000;

/** It says the truth in time: nothing has been done yet, and when to ask again. */
async function refused(asked: () => Promise<ApiAnswer>): Promise<void> {
  const began = performance.now();
  const { status, headers, text } = await asked();
  const took = performance.now() - began;
  assert.equal(status, 503, text);
  assert.ok(Number(headers['retry-after']) > 0);
  assertWithin(LONGEST, took, 'ms until the answer');
}

function suspend(node: TestNode, id: string): Promise<ApiAnswer> {
  return node.send('PATCH', `/directories/${id}/access`, { json: { suspended: true } });
}

async function hasGone({ db }: NodesPlace, id: string): Promise<boolean> {
  return (await db.selectFrom('directories').select('id').where('id', '=', id).executeTakeFirst()) === undefined;
}

test('a change whose home is away: 503, then in force before the home accepts a login', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(b, a);
  await b.berth.stop();

  await refused(() => suspend(a, directory.id));
  const shown = await a.send('GET', `/directories/${directory.id}/access`);
  assert.match(shown.text, /"suspended":true/);
  assert.ok(await letsIn(b, directory), 'its sshd goes on as it was');

  // The machine comes back: this goes before its sshd, and before berth serve.
  await prepare(b.berth.config, createLog('silent'));
  assert.equal(await letsIn(b, directory), false);
  await b.berth.start();
  assert.equal((await suspend(a, directory.id)).status, 200);
});

test('a DELETE whose home is away: 503, then 204 when it is repeated', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const [directory, other] = [await place.directoryOn(b, a), await place.directoryOn(b, a)];
  await b.berth.stop();

  const path = `/directories/${directory.id}`;
  await refused(() => a.send('DELETE', path));
  assert.equal((await a.send('GET', path)).status, 404);
  await refused(() => a.send('DELETE', path));
  await refused(() => a.send('DELETE', `/directories/${other.id}`));

  await b.berth.start();
  await until('its rows have gone', () => hasGone(place, directory.id));
  assert.equal(await letsIn(b, directory), false);
  assert.deepEqual(
    readdirSync(b.berth.config.jailDir).filter((name) => !name.startsWith('.')),
    [],
  );
  for (const node of [a, b, a]) assert.equal((await node.send('DELETE', path)).status, 204);
  assert.equal((await a.send('DELETE', `/directories/${other.id}`)).status, 204);
  assert.equal((await a.send('DELETE', '/directories/0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10')).status, 404);
});

test('new directories go to the nodes that are there', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  await b.berth.stop();
  for (let i = 0; i < 4; i += 1) {
    const made = created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
    assert.equal(made.sftp_port, a.berth.sshd.port);
  }
  await b.berth.start();
  assert.ok(await place.directoryOn(b, a));
});

test('the files of a directory are asked of the node that has it', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const { id } = await place.directoryOn(b, a);
  const put = { body: 'hello', headers: { 'content-type': 'text/plain' } };
  const misdirected = await a.send('PUT', `/directories/${id}/files/hello.txt`, put);
  assert.equal(misdirected.status, 421, misdirected.text);
  const error = `The files of this directory are on b: send this request to ${URL_OF_B}`;
  assert.deepEqual(misdirected.json, { error });
  assert.equal((await b.send('PUT', `/directories/${id}/files/hello.txt`, put)).status, 201);
  const link = { for: 'download', path: 'hello.txt', expires_at: new Date(Date.now() + 3_600_000).toISOString() };
  const elsewhere = await a.send('POST', `/directories/${id}/links`, { json: link });
  assert.deepEqual([elsewhere.status, elsewhere.json], [421, { error }]);
  const made = await b.send('POST', `/directories/${id}/links`, { json: link });
  const { url } = (made.json as { data: { url: string } }).data;
  assert.match(url.slice(URL_OF_B.length), /^\/links\/[\w-]{32}\/hello\.txt$/);
  const target = `/${url.slice(URL_OF_B.length)}`;
  const opened = await a.send('GET', target, { authorization: null });
  assert.deepEqual([opened.status, opened.json], [421, { error }]);
  assert.equal((await b.send('GET', target, { authorization: null })).text, 'hello');
  const other = await place.directoryOn(a, b);
  const unnamed = await b.send('GET', `/directories/${other.id}/files`);
  assert.equal(unnamed.status, 200, 'the list is in the database');
  const file = await b.send('GET', `/directories/${other.id}/files/hello.txt`);
  assert.equal(file.status, 421);
  assert.match(file.text, /are on a: send this request to berth on 127\.0\.0\.1/);
});

test('a deleted user never logs in again, even when the database has lost the deletion', postgresOnly, async () => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(b, a);
  const { search, ...lost } = await place.db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', directory.id)
    .executeTakeFirstOrThrow();
  assert.match(search, /acme/i);
  assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);
  await until('its rows have gone', () => hasGone(place, directory.id));
  await b.berth.stop();
  await place.db.insertInto('directories').values(lost).execute();

  await prepare(b.berth.config, createLog('silent'));
  assert.equal(await letsIn(b, directory), false);
  await b.berth.start();
  await b.berth.service().covered;
  assert.equal(await letsIn(b, directory), false);
  assert.equal((await a.send('POST', `/directories/${directory.id}/password`)).status, 200);
  assert.equal(await letsIn(b, directory), false);
  assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);
});

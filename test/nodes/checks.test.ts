/** Several nodes check uploads: each those of its own directories, by its own checker. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { checkSocket, fakeClamd, questions } from '../checks/check-place.ts';
import { webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { type Created, created, nodesPlace, type NodesPlace, type TestNode } from './nodes-place.ts';

async function hooked(through: TestNode, directory: Created): Promise<Created> {
  const hook = { json: { directory: { webhook_url: through.berth.receiver.url } } };
  assert.equal((await through.send('PATCH', `/directories/${directory.id}`, hook)).status, 200);
  return directory;
}

async function put(home: TestNode, directory: Created, name: string, data: string): Promise<void> {
  const { sftp_username: username, sftp_password: password } = directory;
  await using connection = await connect({ port: home.berth.sshd.port, username, password });
  await (await sftpSession(connection)).put(name, data);
}

/** The names of the uploads that any node lists. */
async function listed(node: TestNode, { id }: Created): Promise<string[]> {
  const { json } = await node.send('GET', `/directories/${id}/uploads`);
  return (json as { data: { filename: string }[] }).data.map(({ filename }) => filename);
}

async function rejectedOf({ db }: NodesPlace, { id }: Created): Promise<string> {
  const row = () => db.selectFrom('quarantine').select('id').where('directory_id', '=', id).executeTakeFirst();
  await until('the file is rejected', async () => (await row()) !== undefined);
  return (await row())?.id ?? '';
}

const quarantine = ({ environment }: TestNode, ...words: string[]) =>
  runHere({ ...environment, SUDO_USER: 'alice' }, 'quarantine', ...words);

test(
  'each node checks and keeps the files of its own directories, and says where a rejected file is',
  postgresOnly,
  async () => {
    const sockets = { a: checkSocket(), b: checkSocket() };
    await using ofA = await fakeClamd(sockets.a);
    await using ofB = await fakeClamd(sockets.b);
    await using place = await nodesPlace(
      { BERTH_NODE: 'a', BERTH_CHECK: `clamd:${sockets.a}` },
      { BERTH_NODE: 'b', BERTH_CHECK: `clamd:${sockets.b}` },
    );
    const [a, b] = [place.node('a'), place.node('b')];
    const atA = await hooked(a, await place.directoryOn(a, b));
    const atB = await hooked(a, await place.directoryOn(b, a));

    await put(a, atA, 'one', 'of a');
    await put(b, atB, 'two', 'of b');
    await until('both are announced', () => a.berth.receiver.requests.length === 2);
    await put(b, atB, 'evil', 'a bad file of b');
    await put(b, atB, 'worse', 'another bad file of b');
    const contents = (asked: readonly Buffer[]): string[] => asked.map(String).sort();
    await until('all are checked', () => ofB.asked.length === 3);
    assert.deepEqual(contents(ofA.asked), ['of a']);
    assert.deepEqual(contents(ofB.asked), ['a bad file of b', 'another bad file of b', 'of b']);

    await until('both are rejected', async () => {
      return (await place.db.selectFrom('quarantine').select('id').execute()).length === 2;
    });
    const rows = await place.db.selectFrom('quarantine').select(['id', 'path', 'node']).orderBy('path').execute();
    assert.deepEqual(
      rows.map(({ path, node }) => `${path.toString()} on ${node}`),
      ['evil on b', 'worse on b'],
    );
    const [evil = '', worse = ''] = rows.map(({ id }) => id);
    const fileOf = (node: TestNode, id: string): string => join(pathsOf(node.berth.config).quarantine, atB.id, id);
    await until('both are in the quarantine', () => existsSync(fileOf(b, evil)) && existsSync(fileOf(b, worse)));
    assert.ok(!existsSync(fileOf(a, evil)));
    assert.deepEqual([...(await listed(a, atB)), ...(await listed(a, atA))], ['two', 'one']);

    // Any node lists them; actions on a file are possible only at its home.
    const { stdout } = await quarantine(a, 'list');
    assert.ok(stdout.includes(evil) && stdout.includes(worse), stdout);
    for (const words of [
      ['release', evil],
      ['delete', evil, '--yes'],
    ]) {
      const refused = await quarantine(a, ...words);
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /on b: do this there/);
    }
    assert.ok(existsSync(fileOf(b, evil)));
    const released = await quarantine(b, 'release', evil);
    assert.equal(released.status, 0, released.stderr);
    await until('it is announced', () => a.berth.receiver.requests.length === 3);
    assert.deepEqual((await listed(a, atB)).sort(), ['evil', 'two']);
    const deleted = await quarantine(b, 'delete', worse, '--yes');
    assert.equal(deleted.status, 0, deleted.stderr);
    assert.equal((await place.db.selectFrom('quarantine').select('id').execute()).length, 0);
    assert.ok(!existsSync(fileOf(b, worse)));
  },
);

test(
  'a node that dies during a check: no other takes its files, and its next start decides them, once',
  postgresOnly,
  async () => {
    const sockets = { a: checkSocket(), b: checkSocket() };
    const { decide, next, waiting } = questions();
    await using ofA = await fakeClamd(sockets.a);
    await using _ofB = await fakeClamd(sockets.b, decide);
    await using place = await nodesPlace({ BERTH_NODE: 'a', BERTH_CHECK: `clamd:${sockets.a}` });
    const a = place.node('a');
    using own = scratch({
      BERTH_DATABASE_URL: place.url,
      BERTH_NODE: 'b',
      BERTH_API_PORT: String(await freePort()),
      BERTH_CHECK: `clamd:${sockets.b}`,
      BERTH_WEBHOOK_ALLOW: '127.0.0.0/8',
    });
    await using first = await startServe(own.config, own.environment);
    let directory: Created;
    do directory = created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
    while (directory.sftp_port === a.berth.sshd.port);
    await hooked(a, directory);

    const files = join(own.config.jailDir, directory.sftp_username, 'files');
    writeFileSync(join(files, 'good'), 'good');
    assert.equal((await next()).content.toString(), 'good');
    await first.kill('SIGKILL');
    await until('a counts it as gone', async () => {
      const { stdout } = await runHere(a.environment, 'node', 'list', '--json');
      const nodes = JSON.parse(stdout) as { name: string; state: string }[];
      return nodes.some(({ name, state }) => name === 'b' && state === 'away');
    });
    assert.deepEqual(await listed(a, directory), []);
    assert.deepEqual([ofA.asked.length, a.berth.receiver.requests.length], [0, 0]);

    waiting.length = 0;
    await using _second = await startServe(own.config, own.environment);
    writeFileSync(join(files, 'evil'), 'bad');
    for (let count = 0; count < 2; count += 1) {
      const asked = await next();
      asked.answer(asked.content.includes('bad') ? 'stream: Bad FOUND' : 'stream: OK');
    }
    assert.equal(webhookOf(await a.berth.receiver.next()).filename, 'good');
    const id = await rejectedOf(place, directory);
    const kept = join(pathsOf(own.config).quarantine, directory.id, id);
    await until('it is in the quarantine', () => existsSync(kept));
    assert.deepEqual(await listed(a, directory), ['good']);
    assert.deepEqual([ofA.asked.length, a.berth.receiver.requests.length], [0, 1]);
  },
);

test('after a move the rejected files can be deleted where they are', postgresOnly, async () => {
  const socket = checkSocket();
  await using _clamd = await fakeClamd(socket);
  await using place = await nodesPlace({ BERTH_NODE: 'a' }, { BERTH_NODE: 'b', BERTH_CHECK: `clamd:${socket}` });
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(b, a);
  await put(b, directory, 'evil', 'a bad file');
  const id = await rejectedOf(place, directory);
  // As `berth node move` leaves it.
  await place.db.updateTable('directories').set({ node: 'a' }).where('id', '=', directory.id).execute();

  const elsewhere = await quarantine(a, 'delete', id, '--yes');
  assert.match(elsewhere.stderr, /This file is on b: do this there/);
  const released = await quarantine(b, 'release', id);
  assert.equal(released.status, 1);
  assert.match(released.stderr, /The directory is on a now.*can only be deleted/);
  const file = join(pathsOf(b.berth.config).quarantine, directory.id, id);
  assert.ok(existsSync(file));
  const deleted = await quarantine(b, 'delete', id, '--yes');
  assert.equal(deleted.status, 0, deleted.stderr);
  assert.ok(!existsSync(file));
  assert.equal((await place.db.selectFrom('quarantine').select('id').execute()).length, 0);
});

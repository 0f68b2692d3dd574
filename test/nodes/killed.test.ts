/** A home crashes or freezes while directories are created: none fails, none exists twice, none appears late. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { usersWithCredentials } from '../../src/machine/sftp/credentials.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { freePort } from '../support/free-port.ts';
import { assertWithin } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { refuseWrites } from '../support/refused-writes.ts';
import { scratch } from '../support/scratch.ts';
import { type ServeProcess, startServe } from '../support/serve-process.ts';
import { type Created, created, nodesPlace, type NodesPlace, type TestNode } from './nodes-place.ts';

/** In ms. */
const LONGEST = 5000;
const CREATES = 40;

/** Another node, as a process of its own and without an sshd. */
async function aside(place: NodesPlace) {
  const port = await freePort();
  const own = scratch({ BERTH_DATABASE_URL: place.url, BERTH_NODE: 'b', BERTH_API_PORT: String(port) });
  let serve: ServeProcess = await startServe(own.config, own.environment);
  return {
    config: own.config,
    serve: () => serve,
    async restart() {
      serve = await startServe(own.config, own.environment);
    },
    users: () => usersWithCredentials(pathsOf(own.config)),
    async [Symbol.asyncDispose]() {
      await serve[Symbol.asyncDispose]();
      own[Symbol.dispose]();
    },
  };
}

async function atHomeElsewhere(a: TestNode): Promise<Created> {
  for (;;) {
    const made = created(await a.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
    if (made.sftp_port !== a.berth.sshd.port) return made;
  }
}

for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
  test(`${signal} of a home during creates: all are answered within 5 s`, postgresOnly, async () => {
    await using place = await nodesPlace('a');
    await using b = await aside(place);
    const a = place.node('a');
    const slow: number[] = [];
    let there = 0;
    const homes = await Promise.all(
      Array.from({ length: CREATES }, async (_, i) => {
        // Slow enough that they wait for the home, not for each other, on a machine that runs other tests, too.
        await setTimeout(i * 100);
        const began = performance.now();
        const made = created(await a.send('POST', '/directories', { json: { directory: { name: `Acme ${i}` } } }));
        slow.push(performance.now() - began);
        // Others are on their way.
        if (made.sftp_port !== a.berth.sshd.port && (there += 1) === 3) b.serve().process.kill(signal);
        return made;
      }),
    );
    assertWithin(LONGEST, Math.max(...slow), 'ms that the slowest took');
    const atB = homes.filter(({ sftp_port: port }) => port !== a.berth.sshd.port);
    assert.ok(atB.length > 0 && atB.length < CREATES, `${atB.length} were answered by the one that has gone`);

    if (signal === 'SIGSTOP') b.serve().process.kill('SIGCONT');
    else await b.restart();
    const { sshd } = a.berth;
    const atA = await usersWithCredentials(sshd.paths);
    const names = (of: typeof homes) => of.map(({ sftp_username: name }) => name).sort();
    assert.deepEqual([...atA].sort(), names(homes.filter((one) => !atB.includes(one))));
    await until('the other has its own ones alone', async () => {
      return JSON.stringify([...(await b.users())].sort()) === JSON.stringify(names(atB));
    });
    const { length } = await place.db.selectFrom('directories').select('id').where('deleted_at', 'is', null).execute();
    assert.equal(length, CREATES);
    // One that stood still may say so.
    if (signal === 'SIGKILL') assert.equal(b.serve().output(), '');
  });
}

test('a frozen home: 503 in time, and it follows when it goes on', postgresOnly, async () => {
  await using place = await nodesPlace('a');
  await using b = await aside(place);
  const a = place.node('a');
  const [directory, other] = [await atHomeElsewhere(a), await atHomeElsewhere(a)];
  b.serve().process.kill('SIGSTOP');
  const refused = async (method: string, path: string, json?: unknown) => {
    const began = performance.now();
    assert.equal((await a.send(method, path, { json })).status, 503);
    assertWithin(10_000, performance.now() - began, 'ms until the refusal');
  };
  await Promise.all([
    refused('DELETE', `/directories/${directory.id}`),
    refused('POST', `/directories/${other.id}/password`),
  ]);
  b.serve().process.kill('SIGCONT');
  await until('it has followed', async () => !(await b.users()).has(directory.sftp_username));
  assert.equal((await a.send('DELETE', `/directories/${directory.id}`)).status, 204);
  assert.equal((await a.send('POST', `/directories/${other.id}/password`)).status, 200);
  assert.deepEqual([...(await b.users())], [other.sftp_username]);
});

test(
  'a create that a frozen home does not follow, and that the database does not undo: nothing of it stays',
  postgresOnly,
  async () => {
    await using place = await nodesPlace('a');
    await using b = await aside(place);
    const a = place.node('a');
    await place.db.updateTable('nodes').set({ drained_at: 1 }).where('name', '=', 'a').execute();
    const allow = await refuseWrites(place.db, 'update of deleted_at on directories');
    const allowRemoval = await refuseWrites(place.db, 'delete on directories');
    const create = () =>
      a.send('POST', '/directories', {
        json: { directory: { name: 'Acme' } },
        headers: { 'idempotency-key': 'again' },
      });
    b.serve().process.kill('SIGSTOP');
    assert.equal((await create()).status, 503);
    assert.equal((await create()).status, 409, 'it is not undone yet');
    b.serve().process.kill('SIGCONT');
    await until('the home has followed the creation', async () => (await b.users()).size === 1);
    await allow();
    await allowRemoval();
    await until('nothing of it is left', async () => {
      const rows = await place.db.selectFrom('directories').select('id').execute();
      return rows.length === 0 && (await b.users()).size === 0;
    });
    assert.deepEqual(
      readdirSync(b.config.jailDir).filter((name) => !name.startsWith('.')),
      [],
    );
    const { sftp_username } = created(await create());
    assert.deepEqual([...(await b.users())], [sftp_username]);
  },
);

/**
 * PostgreSQL is unavailable: SFTP continues, the API answers 503, and afterwards nothing is lost or announced twice.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Send } from '../support/api-client.ts';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { assertWithin, rounds } from '../support/long.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { awayPlace } from './away-place.ts';
import { type Gateway, gateway } from './gateway.ts';

/** As long as a restart of a server with a large database takes, in ms; in a long run, an hour. */
const AWAY = rounds(12_000, 3_600_000);

/** Between two uploads, in ms. */
const PAUSE = rounds(1000, 10_000);

/** An upload has to be faster than this, in ms. */
const UPLOAD_WITHIN = 12_000;

/** In ms: from the database's return to the first answer. */
const BACK_WITHIN = 2000;

async function put(place: Scratch, { login }: TestDirectory, name: string): Promise<void> {
  const source = join(place.dir, 'source');
  writeFileSync(source, name);
  assert.equal((await sftp(place.dir, login, [`put ${source} ${name}`])).code, 0, `${name} is refused`);
}

async function statusOf(send: Send, path = '/directories'): Promise<number> {
  return (await send('GET', path)).status;
}

async function isHealthy(send: Send): Promise<boolean> {
  return (await statusOf(send, '//healthz')) === 200;
}

/** Nothing more is to come: each of these once. */
async function assertTold({ receiver }: TestBerth, url: string, names: readonly string[]): Promise<void> {
  const announced: string[] = [];
  while (announced.length < names.length) announced.push(webhookOf(await receiver.next()).filename);
  assert.deepEqual(announced.toSorted(), names.toSorted());
  assert.equal(Number(psql(url, 'select count(*) from deliveries')), names.length);
}

const away: Record<string, (way: Gateway) => void> = {
  'cut off': (way) => way.cut(),
  frozen: (way) => way.freeze(),
};

for (const [how, leave] of Object.entries(away)) {
  const promise = 'logins and uploads go on, and each upload is announced once afterwards, removed ones too';
  test(`a database that is ${how} for ${AWAY / 1000} s: ${promise}`, postgresOnly, async () => {
    await using parts = new AsyncDisposableStack();
    const database = freshDatabase();
    parts.defer(() => database.drop());
    const corner = parts.use(scratch({ BERTH_DATABASE_URL: '' }));
    const way = parts.use(await gateway(corner.dir));
    const place = parts.use(scratch({ BERTH_DATABASE_URL: way.throughIt(database.url), BERTH_NODE: 'one' }));
    const berth = parts.use(await startBerth(place));
    const directory = await berth.directory();
    const session = await parts.use(await berth.connect(directory)).sftp();
    const write = promisify(session.writeFile.bind(session)) as (name: string, content: string) => Promise<void>;
    const unlink = promisify(session.unlink.bind(session));
    await put(place, directory, 'before');
    await until('it is announced', () => berth.receiver.requests.length === 1);

    leave(way);
    const gone = performance.now();
    const [ofOld, ofNew] = ['removed-of-a-session-that-was-there', 'removed-of-a-new-session'];
    await write(ofOld, 'gone');
    await put(place, directory, ofNew);
    await unlink(ofOld);
    await unlink(ofNew);
    const names: string[] = [];
    while (performance.now() < gone + AWAY) {
      const name = `during-${names.length}`;
      const began = performance.now();
      await (names.length % 2 === 0 ? put(place, directory, name) : write(name, name));
      assertWithin(UPLOAD_WITHIN, performance.now() - began, 'ms that the upload took');
      names.push(name);
      await wait(PAUSE);
    }
    assert.equal(await statusOf(berth.send), 503);
    assert.equal(await isHealthy(berth.send), false);

    await way.repair();
    const back = performance.now();
    await until('it is healthy', () => isHealthy(berth.send));
    const healthyAfter = performance.now() - back;
    assertWithin(BACK_WITHIN, healthyAfter, 'ms until it is healthy');
    assert.equal(await statusOf(berth.send), 200);
    await assertTold(berth, database.url, ['before', ofOld, ofNew, ...names]);
  });
}

test(
  'a start without the database waits for it and says so, and sshd serves; what came is announced once',
  postgresOnly,
  async () => {
    await using there = await awayPlace();
    const { berth, directory, place, way } = there;
    way.cut();
    const serve = there.serve();
    await until('it says that it waits', () =>
      serve.output().includes('berth waits for it, and sshd serves meanwhile'),
    );
    await put(place, directory, 'meanwhile');
    assert.equal(serve.hasEnded(), false, serve.output());
    await way.repair();
    await assertTold(berth, there.url, ['meanwhile']);
    assert.equal(await serve.kill('SIGTERM'), 0);

    way.cut();
    const again = there.serve();
    await until('it says that it waits', () => again.output().includes('berth waits for it'));
    assert.equal(await again.kill('SIGTERM'), 0, 'it ends on a signal, also while it waits');
  },
);

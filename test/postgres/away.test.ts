/** PostgreSQL is away: SFTP goes on, the API says 503, and afterwards nothing has been lost and nothing is told twice. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type Gateway, gateway } from './gateway.ts';

/** As long as a restart of a server with a large database takes, in ms. */
const AWAY = 12_000;

/** In ms: from the database's return to the first answer. */
const BACK_WITHIN = 2000;

async function put(place: Scratch, { login }: TestDirectory, name: string): Promise<void> {
  const source = join(place.dir, 'source');
  writeFileSync(source, name);
  assert.equal((await sftp(place.dir, login, [`put ${source} ${name}`])).code, 0, `${name} is refused`);
}

async function statusOf(berth: TestBerth, path = '/directories'): Promise<number> {
  return (await berth.send('GET', path)).status;
}

const away: Record<string, (way: Gateway) => void> = {
  'cut off': (way) => way.cut(),
  frozen: (way) => way.freeze(),
};

for (const [how, leave] of Object.entries(away)) {
  test(
    `a database that is ${how} for 12 s: logins and uploads go on, each upload is announced once afterwards`,
    postgresOnly,
    async () => {
      const database = freshDatabase();
      using place = scratch({ BERTH_DATABASE_URL: '' });
      using way = await gateway(place.dir);
      using its = scratch({ BERTH_DATABASE_URL: way.throughIt(database.url), BERTH_NODE: 'one' });
      try {
        await using berth = await startBerth(its);
        const directory = await berth.directory();
        await put(its, directory, 'before');
        assert.equal(webhookOf(await berth.receiver.next()).filename, 'before');
        await using live = await berth.connect(directory);
        const open = await live.sftp();

        leave(way);
        const gone = performance.now();
        const names = Array.from({ length: 8 }, (_, index) => `during-${index}`);
        for (const [index, name] of names.entries()) {
          if (index % 2 === 0) await put(its, directory, name);
          else
            await new Promise<void>((resolve, reject) => {
              open.writeFile(name, name, (error) => (error ? reject(new Error(error.message)) : resolve()));
            });
        }
        const took = performance.now() - gone;
        assert.ok(took < AWAY, `the uploads took ${took} ms`);
        assert.equal(await statusOf(berth), 503);
        assert.equal(await statusOf(berth, '//healthz'), 503);
        await wait(Math.max(0, gone + AWAY - performance.now()));

        await way.mend();
        const back = performance.now();
        await until('it is healthy', async () => (await statusOf(berth, '//healthz')) === 200, 20);
        const healthyAfter = performance.now() - back;
        assert.ok(healthyAfter < BACK_WITHIN, `healthy after ${healthyAfter} ms`);
        assert.equal(await statusOf(berth), 200);
        const told = new Set<string>();
        while (told.size < names.length) told.add(webhookOf(await berth.receiver.next()).filename);
        assert.deepEqual([...told].toSorted(), names);
        console.log(
          how,
          'uploads',
          Math.round(took),
          'healthy',
          Math.round(healthyAfter),
          'all told',
          Math.round(performance.now() - back),
        );
        assert.equal(psql(database.url, 'select count(*) from deliveries').trim(), '9');
      } finally {
        database.drop();
      }
    },
  );
}

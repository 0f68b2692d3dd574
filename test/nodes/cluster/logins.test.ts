/** No login queries PostgreSQL, so logins a second grow with the number of nodes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { longOnly, rounds } from '../../support/long.ts';
import { psql } from '../../support/postgres.ts';
import type { Created } from '../nodes-place.ts';
import { type Cluster, cluster, clustered, type ClusterNode, entering } from './cluster.ts';

const LOGINS = rounds(20, 100);
const AT_A_TIME = 4;

/** Logs in so often. @returns how long it took, in ms. */
async function logIn(directory: Created, count: number): Promise<number> {
  let left = count;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      while (left-- > 0) {
        await using connection = await entering(directory);
        await connection.sftp();
      }
    }),
  );
  return performance.now() - began;
}

/** What that machine has asked PostgreSQL while something was done. */
async function asked({ server, url }: Cluster, node: ClusterNode, what: () => Promise<unknown>): Promise<string[]> {
  const log = join(server.folder, 'log');
  const from = readFileSync(log).length;
  await what();
  // What comes after the end is of another time.
  psql(url, 'select 1');
  const lines = readFileSync(log).subarray(from).toString().split('\n');
  return lines.filter((line) => line.startsWith(`${node.config.sftp.host} `) && /(statement|execute \S+): /.test(line));
}

test('no login asks PostgreSQL anything', clustered, async (t) => {
  await using place = await cluster({ a: {}, b: {} });
  const { server } = place;
  const b = place.node('b');
  const directory = await place.directoryOn(b);
  for (const setting of ["log_statement = 'all'", "log_line_prefix = '%h '"]) {
    const admin = `postgres://postgres@/postgres?host=${server.folder}&port=${new URL(place.url).port}`;
    psql(admin, `alter system set ${setting}`);
    psql(admin, 'select pg_reload_conf()');
  }
  const rest = await asked(place, b, () => wait(3000));
  assert.ok(rest.length > 0, 'the log of the server has its statements');
  const during = await asked(place, b, () => logIn(directory, LOGINS).then(() => wait(1000)));
  t.diagnostic(
    `${during.length} statements of its node during ${LOGINS} logins and 1 s after, ${rest.length} in 3 s of rest`,
  );

  // Those are of what berth notes afterwards: it stands still, and every login gets in, with no statement from that machine.
  b.serve().process.kill('SIGSTOP');
  await wait(500);
  assert.deepEqual(await asked(place, b, () => logIn(directory, LOGINS)), []);
  b.serve().process.kill('SIGCONT');
});

test('two nodes take more logins than one', { skip: clustered.skip || longOnly.skip }, async (t) => {
  if (availableParallelism() < 2) return t.skip('one processor is the same for both');
  // Each has one processor, as machines of their own have theirs.
  await using place = await cluster({ a: { processor: 0 }, b: { processor: 1 } });
  const [a, b] = [await place.directoryOn(place.node('a')), await place.directoryOn(place.node('b'))];
  await Promise.all([a, b].map((each) => logIn(each, AT_A_TIME)));
  // Others may need the processors at that moment.
  for (let tries = 1; ; tries += 1) {
    const one = (LOGINS * 1000) / (await logIn(a, LOGINS));
    const two = (2 * LOGINS * 1000) / Math.max(...(await Promise.all([a, b].map((each) => logIn(each, LOGINS)))));
    t.diagnostic(`${one.toFixed(1)} logins a second of one node, ${two.toFixed(1)} of two`);
    if (two > one) return;
    assert.ok(tries < 3, `${one} of one, ${two} of two`);
  }
});

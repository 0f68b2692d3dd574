/** PostgreSQL is stopped, then a node restarts as well: SFTP goes on, and every upload is announced once afterwards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../../support/berth.ts';
import { assertWithin } from '../../support/long.ts';
import { percentile } from '../../support/percentile.ts';
import { until } from '../../support/poll.ts';
import { sftpSession, type SftpSession } from '../../support/sftp-session.ts';
import type { Created } from '../nodes-place.ts';
import { type Cluster, cluster, clustered, entering, put } from './cluster.ts';

/** In s. `TEST_FILE_SECONDS=5000 CLUSTER_AWAY=3600` is the hour that is promised, too. */
const AWAY = Number(process.env['CLUSTER_AWAY'] ?? 12);

/** In ms: from the database's return to the first answer. */
const BACK_WITHIN = 2000;

/** Between uploads of a client, in ms: about a thousand of each in an hour. */
const PAUSE = Math.max(1000, AWAY);

/** How long the last of them may take to be announced, in s. */
const ANNOUNCED = 60 + AWAY / 20;

/** Each of these once, and nothing else. */
async function assertTold({ receiver, db }: Cluster, names: readonly string[]): Promise<void> {
  const announced = (): string[] => {
    // A busy machine may answer too late, and get one again.
    const requests = new Map(receiver.requests.map((request) => [request.headers['webhook-id'], request]));
    return [...requests.values()].map((request) => webhookOf(request)).map((of) => `${of.directory_id} ${of.filename}`);
  };
  await until('all is announced', () => announced().length >= names.length, ANNOUNCED).catch(() => undefined);
  await until('nothing is to be sent', async () => {
    const open = await db.selectFrom('deliveries').select('id').where('finished_at', 'is', null).execute();
    return open.length === 0;
  });
  assert.deepEqual(announced().sort(), names.toSorted());
}

interface Visitor {
  readonly directory: Created;
  /** A session from before. */
  readonly session: SftpSession;
}

interface Visits {
  /** What is to be announced. */
  readonly names: string[];
  /** How long logins with an upload took, in ms. */
  readonly logins: number[];
}

/** Uploads in the session that was there before, and in new ones. */
async function uploadsUntil(over: AbortSignal, { directory, session }: Visitor): Promise<Visits> {
  const visits: Visits = { names: [], logins: [] };
  for (let index = 0; !over.aborted; index += 1) {
    const [old, fresh] = [`old-${index}`, `new-${index}`];
    const began = performance.now();
    await Promise.all([session.put(old, old), put(directory, fresh)]);
    visits.logins.push(performance.now() - began);
    visits.names.push(`${directory.id} ${old}`, `${directory.id} ${fresh}`);
    await wait(PAUSE, undefined, { signal: over }).catch(() => undefined);
  }
  return visits;
}

/** Uploads that are removed at once. */
async function removedUploads({ directory, session }: Visitor): Promise<string[]> {
  const [ofOld, ofNew] = ['removed-of-a-session-that-was-there', 'removed-of-a-new-session'];
  await session.put(ofOld, 'gone');
  await put(directory, ofNew);
  for (const name of [ofOld, ofNew]) await session.remove(name);
  return [ofOld, ofNew].map((name) => `${directory.id} ${name}`);
}

async function backWithin(place: Cluster, start: () => Promise<void>): Promise<number> {
  await start();
  const began = performance.now();
  await Promise.all(['a', 'b'].map((name) => until(`${name} is healthy`, () => place.node(name).isHealthy())));
  return performance.now() - began;
}

test(
  'PostgreSQL is stopped during uploads on two nodes, which go on; then one restarts meanwhile',
  clustered,
  async (t) => {
    await using place = await cluster({ a: {}, b: {} });
    const { server } = place;
    const nodes = [place.node('a'), place.node('b')];
    const [a, b] = [await place.directoryOn(place.node('a')), await place.directoryOn(place.node('b'))];
    const names: string[] = [];

    await t.test(`stopped for ${AWAY} s`, async (each) => {
      await using connections = new AsyncDisposableStack();
      const visitors: Visitor[] = [];
      for (const directory of [a, b]) {
        visitors.push({ directory, session: await sftpSession(connections.use(await entering(directory))) });
      }
      const over = new AbortController();
      const uploads = Promise.all(visitors.map((visitor) => uploadsUntil(over.signal, visitor)));
      // Reported where it is awaited.
      uploads.catch(() => undefined);
      await wait(200);
      await server.stop();
      names.push(...(await Promise.all(visitors.map(removedUploads))).flat());
      await wait(AWAY * 500);
      for (const node of nodes) {
        assert.equal((await node.send('GET', '/directories')).status, 503);
        assert.equal(await node.isHealthy(), false);
      }
      await wait(AWAY * 500);
      const took = await backWithin(place, () => server.start());
      each.diagnostic(`healthy ${Math.round(took)} ms after the database`);
      assertWithin(BACK_WITHIN, took, 'ms until both are healthy');
      over.abort();
      const visits = await uploads;
      names.push(...visits.flatMap((visit) => visit.names));
      const logins = visits.flatMap((visit) => visit.logins);
      const at = (part: number): string => percentile(logins, part).toFixed(0);
      each.diagnostic(`${names.length} uploads, a login and an upload p50 ${at(0.5)} ms, longest ${at(1)} ms`);
      const began = performance.now();
      await assertTold(place, names);
      each.diagnostic(`announced within ${Math.round((performance.now() - began) / 100) / 10} s`);
    });

    await t.test('a node that restarts meanwhile', async () => {
      const node = place.node('b');
      await server.stop();
      await node.powerOff();
      await node.startSshd();
      const serve = node.startServe();
      await until('it says that it waits', () =>
        serve.output().includes('berth waits for it, and sshd serves meanwhile'),
      );
      await put(b, 'meanwhile');
      assert.equal(serve.hasEnded(), false, serve.output());
      await backWithin(place, () => server.start());
      await assertTold(place, [...names, `${b.id} meanwhile`]);
    });
  },
);

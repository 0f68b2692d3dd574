/**
 * Creates on two machines, the clock of one five minutes ahead: the limit holds, directories are soon live, and no create
 * fails if a home disappears.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { assertWithin, rounds } from '../../support/long.ts';
import { percentile } from '../../support/percentile.ts';
import { until } from '../../support/poll.ts';
import { clientOf } from '../../support/serve-process.ts';
import { type Created, created } from '../nodes-place.ts';
import { AHEAD, type Cluster, cluster, clustered, type ClusterNode, letsIn } from './cluster.ts';

const CREATES = 40;

/** Promised for machines that do nothing else, in ms: p50 and p99, and the longest when a home goes. */
const PROMISED = { p50: 15, p99: 80, longest: 5000 };

/** How much longer it may take here, where both, the database and other tests share one machine. */
const SHARED = { soon: 10, longest: 2 };

const WAYS = ['unplugged', 'frozen', 'killed'] as const;
type Way = (typeof WAYS)[number];

const leaves: Record<Way, (node: ClusterNode) => unknown> = {
  unplugged: ({ cable }) => cable.unplug(),
  frozen: (node) => node.serve().process.kill('SIGSTOP'),
  killed: (node) => node.serve().kill('SIGKILL'),
};

const returns: Record<Way, (node: ClusterNode) => unknown> = {
  unplugged: ({ cable }) => cable.plug(),
  frozen: (node) => node.serve().process.kill('SIGCONT'),
  killed: (node) => node.startHealthy(),
};

const acme = (name: string | number) => ({ json: { directory: { name: `Acme ${name}` } } });

test('creates on two machines, the clock of one five minutes ahead', clustered, async (t) => {
  await using place = await cluster({ a: {}, b: { settings: AHEAD } });
  await t.test('60 creates at once on the plan Pro make 25 directories', () => limited(place));
  await t.test('one at home elsewhere is there when the answer comes, soon', (each) => elsewhere(place, each));
  for (const how of WAYS) await t.test(`no create fails while a home is ${how}`, (each) => without(place, how, each));
});

async function limited({ db, node }: Cluster): Promise<void> {
  await db.updateTable('accounts').set({ plan: 'pro' }).execute();
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => node(i % 2 === 0 ? 'a' : 'b').send('POST', '/directories', acme(i))),
  );
  const by = Object.groupBy(answers, ({ status, text }) => (status === 201 ? '201' : text));
  assert.deepEqual(
    Object.entries(by).map(([answer, given = []]) => [answer, given.length]),
    [
      ['201', 25],
      ['{"error":"Directory limit reached for your plan"}', 35],
    ],
  );
  await db.updateTable('accounts').set({ plan: 'business' }).execute();
}

async function elsewhere({ node, key }: Cluster, t: TestContext): Promise<void> {
  const a = node('a');
  using client = clientOf(a.config, key);
  const took: Record<string, number[]> = {};
  let latest: Created | undefined;
  for (let i = 0; i < rounds(100, 300); i += 1) {
    const began = performance.now();
    const made = created(await client.send('POST', '/directories', acme(i)));
    const isHere = made.sftp_host === a.config.sftp.host;
    (took[isHere ? 'here' : 'elsewhere'] ??= []).push(performance.now() - began);
    if (!isHere) latest = made;
  }
  assert.ok(latest && (await letsIn(latest)));
  const [p50, p99] = [0.5, 0.99].map((part) => percentile(took['elsewhere'] ?? [], part));
  for (const [where, times] of Object.entries(took)) {
    const at = (part: number): string => percentile(times, part).toFixed(1);
    t.diagnostic(`${where}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms of ${times.length}`);
  }
  assertWithin(PROMISED.p50 * SHARED.soon, Number(p50), 'ms, median');
  assertWithin(PROMISED.p99 * SHARED.soon, Number(p99), 'ms, 99th percentile');
}

async function without({ node, db }: Cluster, how: Way, t: TestContext): Promise<void> {
  const [a, b] = [node('a'), node('b')];
  const before = { a: await a.users(), b: await b.users() };
  const took: number[] = [];
  let there = 0;
  const all = await Promise.all(
    Array.from({ length: CREATES }, async (_, i) => {
      await wait(i * 25);
      const began = performance.now();
      const made = created(await a.send('POST', '/directories', acme(`${how} ${i}`)));
      took.push(performance.now() - began);
      // Others are on their way.
      if (made.sftp_host === b.config.sftp.host && (there += 1) === 3) await leaves[how](b);
      return made;
    }),
  );
  const longest = Math.round(Math.max(...took));
  t.diagnostic(`the longest took ${longest} ms`);
  assertWithin(PROMISED.longest * SHARED.longest, longest, 'ms that the slowest took');
  const [atA, atB] = [a, b].map(({ config }) => all.filter((each) => each.sftp_host === config.sftp.host));
  const at = { a: atA ?? [], b: atB ?? [] };
  assert.equal(at.a.length + at.b.length, CREATES);
  assert.ok(at.a.length > at.b.length, `${at.b.length} are at home on the one that has gone`);

  await returns[how](b);
  for (const one of ['a', 'b'] as const) {
    const names = at[one].map(({ sftp_username: name }) => name).sort();
    await until(`${one} has its own ones alone`, async () => {
      const users = [...(await node(one).users())].filter((name) => !before[one].has(name));
      return JSON.stringify(users.sort()) === JSON.stringify(names);
    });
  }
  const rows = await db.selectFrom('directories').select('id').where('name', 'like', `Acme ${how} %`).execute();
  assert.equal(rows.length, CREATES);
  for (const each of [...at.a.slice(-3), ...at.b.slice(-3)]) assert.ok(await letsIn(each), each.sftp_username);
}

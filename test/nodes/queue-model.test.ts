/**
 * Random stories of two nodes that use one outbox at once: they claim, crash, finish late, and leases end. Each attempt
 * belongs to one node, and each delivery ends like one of its attempts that still held the lease.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../support/fast-check.ts';
import { sql } from 'kysely';
import { presentTime } from '../../src/foundation/db/shared.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { deliveryFor, destinationOf, enqueueNow } from '../../src/deliveries/webhooks/outbox.ts';
import { type Claimed, doRound, type Ended, LEASE } from '../../src/deliveries/webhooks/queue.ts';
import { postgresOnly } from '../support/postgres.ts';
import { twoWriters, type TwoWriters } from './two-writers.ts';

const URLS = ['http://127.0.0.1:1/a', 'http://127.0.0.1:2/b', 'http://127.0.0.1:3/c'];
type Outcome = 'delivered' | 'again' | 'later' | 'spared' | 'failed';

const node = fc.constantFrom(0, 1);
const step = fc.oneof(
  fc.record({ do: fc.constant('put'), node, receiver: fc.nat(2), count: fc.integer({ min: 1, max: 12 }) }),
  // Both at once.
  fc.record({
    do: fc.constant('claim'),
    receivers: fc.array(fc.nat(2), { minLength: 1, maxLength: 2 }),
    count: fc.integer({ min: 1, max: 8 }),
  }),
  fc.record({
    do: fc.constant('finish'),
    node,
    outcome: fc.constantFrom<Outcome>('delivered', 'again', 'later', 'spared', 'failed'),
    count: fc.integer({ min: 1, max: 6 }),
  }),
  fc.record({ do: fc.constant('die'), node }),
  fc.record({ do: fc.constant('time passes') }),
  fc.record({ do: fc.constant('promoteDue') }),
  fc.record({ do: fc.constant('another URL'), receiver: fc.nat(2), to: fc.nat(2) }),
);

interface Held extends Claimed {
  isLost: boolean;
}

class World {
  readonly nodes: TwoWriters;
  readonly directories: readonly { id: string; account_id: string; slug: string; external_id: string | null }[];
  /** What each of them works on. */
  readonly held: [Held[], Held[]] = [[], []];
  readonly ended: [Ended[], Ended[]] = [[], []];
  readonly attempts = new Set<string>();
  readonly succeeded = new Map<string, number>();

  constructor(nodes: TwoWriters, directories: World['directories']) {
    this.nodes = nodes;
    this.directories = directories;
  }

  async round(which: 0 | 1, receivers: readonly number[], count: number, promotes = false): Promise<void> {
    const { database, clock } = which === 0 ? this.nodes.one : this.nodes.other;
    const finished = this.ended[which];
    this.ended[which] = [];
    const turns = () =>
      [...new Set(receivers)].map((each) => ({
        destination: destinationOf(this.directories[each]?.account_id ?? '', URLS[each] ?? ''),
        count,
      }));
    const { claimed } = await database.db.transaction().execute(async (tx) => {
      const now = await presentTime(tx, clock);
      return doRound(tx, { finished, promotes, now, due: () => undefined, turns });
    });
    for (const lease of claimed) {
      const name = `${lease.id} ${lease.attempts}`;
      // An attempt that was spared does not count, so its number comes again.
      assert.ok(!this.attempts.has(name), `${name} was claimed twice`);
      this.attempts.add(name);
    }
    for (const each of claimed) {
      assert.ok(!this.held.flat().some((other) => other.id === each.id && !other.isLost), `${each.id} is held already`);
      this.held[which].push({ ...each, isLost: false });
    }
  }

  finish(which: 0 | 1, outcome: Outcome, count: number): void {
    for (const { isLost, ...lease } of this.held[which].splice(0, count)) {
      const ok = outcome === 'delivered';
      const retryIn =
        ok || outcome === 'failed' || lease.attempts === 4 ? undefined : outcome === 'later' ? 3_600_000_000 : 0;
      const isSpared = outcome === 'spared' && retryIn !== undefined;
      if (isSpared && !isLost) this.attempts.delete(`${lease.id} ${lease.attempts}`);
      if (ok && !isLost) this.succeeded.set(lease.id, (this.succeeded.get(lease.id) ?? 0) + 1);
      const answer = { status: ok ? 204 : 503, latency: 5, error: ok ? null : 'no', response: Buffer.from('x') };
      this.ended[which].push({
        id: lease.id,
        attempts: lease.attempts,
        destination: lease.destination,
        ok,
        retryIn,
        isSpared,
        ...answer,
      });
    }
  }
}

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function take(world: World, each: Step): Promise<void> {
  const { one } = world.nodes;
  switch (each.do) {
    case 'put': {
      const { database } = each.node === 0 ? world.nodes.one : world.nodes.other;
      const directory = world.directories[each.receiver];
      assert.ok(directory);
      const row = await database.reads
        .selectFrom('directories')
        .select('webhook_url')
        .where('id', '=', directory.id)
        .executeTakeFirstOrThrow();
      const event = {
        directory: { ...directory, webhook_url: null, uses_account_webhook: 1 as const },
        uploadId: null,
        filename: 'a',
        sizeBytes: 1,
        uploadedAt: 1,
      };
      await database.db.transaction().execute(async (tx) => {
        for (let i = 0; i < each.count; i += 1) await enqueueNow(tx, deliveryFor(event, row.webhook_url ?? ''));
      });
      return;
    }
    case 'claim':
      await Promise.all(([0, 1] as const).map((which) => world.round(which, each.receivers, each.count)));
      return;
    case 'finish':
      world.finish(each.node === 0 ? 0 : 1, each.outcome, each.count);
      // One of them claims meanwhile.
      await Promise.all([world.round(0, [0], 1), world.round(1, [1], 1)]);
      return;
    case 'die': {
      const which = each.node === 0 ? 0 : 1;
      // What it had not recorded goes with it.
      for (const ended of world.ended[which].splice(0)) if (ended.ok) world.succeeded.delete(ended.id);
      world.held[which] = [];
      return;
    }
    case 'time passes':
      await one.database.db
        .updateTable('deliveries')
        .set((eb) => ({ due_at: eb('due_at', '-', LEASE) }))
        .where('state', 'in', ['running', 'waiting'])
        .execute();
      for (const lease of world.held.flat()) lease.isLost = true;
      await Promise.all([world.round(0, [], 0, true), world.round(1, [], 0, true)]);
      return;
    case 'promoteDue':
      await Promise.all([world.round(0, [2], 2, true), world.round(1, [2], 2, true)]);
      return;
    case 'another URL': {
      const url = `${URLS[each.to]}/${world.attempts.size}`;
      const id = world.directories[each.receiver]?.id ?? '';
      await one.database.db.updateTable('directories').set({ webhook_url: url }).where('id', '=', id).execute();
    }
  }
}

/** Runs until nothing is left to send, without further crashes. */
async function drain(world: World): Promise<void> {
  for (let left = 1; left > 0;) {
    await take(world, { do: 'time passes' });
    await Promise.all(([0, 1] as const).map((which) => world.round(which, [0, 1, 2], 20)));
    for (const which of [0, 1] as const) world.finish(which, 'delivered', 1000);
    await Promise.all(([0, 1] as const).map((which) => world.round(which, [], 0)));
    const open = await world.nodes.reads
      .selectFrom('deliveries')
      .select('id')
      .where('finished_at', 'is', null)
      .execute();
    left = open.length;
  }
}

test(
  'an attempt is one node’s alone, and every delivery ends as the attempt that held its lease',
  postgresOnly,
  async () => {
    await using nodes = await twoWriters();
    const account = await nodes.account();
    const directories = await Promise.all(
      URLS.map(async () => (await createDirectory(nodes.one, { accountId: account }, { name: 'Orders' })).directory),
    );
    const { db } = nodes.one.database;
    const story = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await sql`truncate deliveries, attempts`.execute(db);
      for (const [i, { id }] of directories.entries())
        await db.updateTable('directories').set({ webhook_url: URLS[i] }).where('id', '=', id).execute();
      const world = new World(nodes, directories);
      for (const each of steps) await take(world, each);
      await drain(world);
      const rows = await nodes.reads.selectFrom('deliveries').select(['id', 'state', 'attempts', 'due_at']).execute();
      const made = await nodes.reads.selectFrom('attempts').select(['delivery_id', 'number', 'finished_at']).execute();
      const attempts = Map.groupBy(made, ({ delivery_id }) => delivery_id);
      for (const { id, state, attempts: count, due_at } of rows) {
        assert.equal(state === 'delivered' ? 1 : 0, world.succeeded.get(id) ?? 0, `${id} is ${state}`);
        assert.ok(state === 'delivered' || state === 'failed');
        assert.equal(due_at, null);
        const numbers = (attempts.get(id) ?? []).map(({ number }) => number).sort((a, b) => a - b);
        assert.deepEqual(
          numbers,
          Array.from({ length: count }, (_, i) => i + 1),
        );
        assert.ok(count <= 4);
      }
      assert.ok(made.every(({ finished_at }) => finished_at !== null));
    });
    await fc.assert(story, { numRuns: Number(process.env['RUNS'] ?? 40) });
  },
);

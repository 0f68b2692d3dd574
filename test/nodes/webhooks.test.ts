/** Two nodes send from one outbox: each webhook is sent once, by either node, even if the other has crashed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createBackground } from '../../src/foundation/base/background.ts';
import { presentTime } from '../../src/foundation/db/shared.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import { Dispatcher } from '../../src/deliveries/webhooks/dispatcher.ts';
import { enqueue, type UploadEvent } from '../../src/deliveries/webhooks/outbox.ts';
import type { RetryDelays } from '../../src/deliveries/webhooks/outcome.ts';
import { claim, LEASE } from '../../src/deliveries/webhooks/queue.ts';
import { replayFailed } from '../../src/deliveries/webhooks/replay.ts';
import { startReplayQueue } from '../../src/deliveries/webhooks/start.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { assertWithin } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { receiver, type Receiver } from '../support/receiver.ts';
import { twoWriters, type TwoWriters, type Writer } from './two-writers.ts';

type Directory = UploadEvent['directory'];

interface Place extends AsyncDisposable {
  readonly nodes: TwoWriters;
  /** Runs a dispatcher of that node until the test ends. */
  dispatch(node: Writer, retryDelays?: RetryDelays): Dispatcher;
  directory(url: string): Promise<Directory>;
}

async function place(): Promise<Place> {
  await using parts = new AsyncDisposableStack();
  const nodes = parts.use(await twoWriters());
  const account = await nodes.account();
  const sender = parts.adopt(createSender(guardedAgents(['127.0.0.0/8']), '1'), ({ close }) => close());
  const owned = parts.move();
  return {
    nodes,
    dispatch: ({ database, clock }, retryDelays = [0.1, 0.1, 0.1]) =>
      owned.adopt(
        new Dispatcher({ database, clock, log: createLog('silent'), retryDelays, send: sender.send }),
        (dispatcher) => dispatcher.close(),
      ),
    async directory(webhook_url) {
      const { directory } = await createDirectory(nodes.one, { accountId: account }, { name: 'Orders' });
      await setUrl(nodes.one, directory.id, webhook_url);
      return { ...directory, webhook_url };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function setUrl({ database }: Writer, id: string, webhook_url: string): Promise<void> {
  await database.db.updateTable('directories').set({ webhook_url }).where('id', '=', id).execute();
}

function events(directory: Directory, count: number, { clock }: Writer): UploadEvent[] {
  return Array.from({ length: count }, (_, i) => ({
    directory,
    uploadId: null,
    filename: `${i}.csv`,
    sizeBytes: 1,
    uploadedAt: clock.now(),
  }));
}

/** As a node that dies right after the commit does. */
async function put({ database }: Writer, uploads: readonly UploadEvent[]): Promise<void> {
  await database.db.transaction().execute((tx) => enqueue(tx, ...uploads));
}

const open = ({ reads }: TwoWriters) =>
  reads.selectFrom('deliveries').selectAll().where('finished_at', 'is', null).execute();

const delivered = (nodes: TwoWriters, count: number) =>
  until(`${count} are delivered`, async () => {
    const rows = await nodes.reads.selectFrom('deliveries').select('id').where('state', '=', 'delivered').execute();
    return rows.length === count;
  });

function assertOnce(hooks: readonly Receiver[], count: number): void {
  const ids = hooks.flatMap(({ requests }) => requests.map(({ headers }) => headers['webhook-id']));
  assert.equal(ids.length, count);
  assert.equal(new Set(ids).size, count);
}

test('webhooks of two nodes are sent once each, and both nodes send', postgresOnly, async () => {
  await using at = await place();
  const { nodes } = at;
  const hooks = [await receiver(), await receiver(), await receiver()];
  await using _ = new AsyncDisposableStack();
  for (const hook of hooks) _.use(hook);
  const directories = await Promise.all(hooks.map(({ url }) => at.directory(url)));
  const both = [nodes.one, nodes.other].map((node) => ({ node, dispatcher: at.dispatch(node), sent: 0 }));
  await Promise.all(
    both.flatMap(({ node, dispatcher }) =>
      Array.from({ length: 50 }, (_each, i) =>
        dispatcher.transact(async (tx) => {
          const directory = directories[i % directories.length];
          assert.ok(directory);
          return { value: undefined, destinations: await enqueue(tx, ...events(directory, 6, node)) };
        }),
      ),
    ),
  );
  await delivered(nodes, 600);
  assertOnce(hooks, 600);
  const rows = await nodes.reads.selectFrom('deliveries').select('attempts').distinct().execute();
  assert.deepEqual(rows, [{ attempts: 1 }]);
});

test('webhooks of a dead node are sent by another, within seconds', postgresOnly, async () => {
  await using at = await place();
  const { nodes } = at;
  await using hook = await receiver();
  const directory = await at.directory(hook.url);
  at.dispatch(nodes.other);
  for (let round = 0; round < 3; round += 1) {
    const began = performance.now();
    await put(nodes.one, events(directory, 20, nodes.one));
    await delivered(nodes, 20 * (round + 1));
    assertWithin(5000, performance.now() - began, 'ms until all are delivered');
  }
  assertOnce([hook], 60);
});

test(
  'what a dead node was about to send is sent by another when its lease has ended, and not before',
  postgresOnly,
  async () => {
    await using at = await place();
    const { nodes } = at;
    await using hook = await receiver();
    const directory = await at.directory(hook.url);
    const [event] = events(directory, 1, nodes.one);
    assert.ok(event);
    await put(nodes.one, [event]);
    const [row] = await open(nodes);
    assert.ok(row);
    const { claimed } = await nodes.one.database.db
      .transaction()
      .execute(async (tx) =>
        claim(tx, [{ destination: row.destination, count: 5 }], await presentTime(tx, nodes.one.clock)),
      );
    assert.equal(claimed.length, 1);
    // Its clock is five minutes ahead, which says nothing.
    at.dispatch(nodes.other);
    await new Promise((resolve) => setTimeout(resolve, 2500));
    assert.equal(hook.requests.length, 0);
    await nodes.one.database.db
      .updateTable('deliveries')
      .set((eb) => ({ due_at: eb('due_at', '-', LEASE) }))
      .execute();
    await delivered(nodes, 1);
    const attempts = await nodes.reads
      .selectFrom('attempts')
      .select(['number', 'status', 'error'])
      .orderBy('number')
      .execute();
    assert.deepEqual(attempts, [
      { number: 1, status: null, error: 'berth stopped during this attempt' },
      { number: 2, status: 204, error: null },
    ]);
  },
);

test('a retry keeps its wait, whichever node sends it', postgresOnly, async () => {
  await using at = await place();
  const { nodes } = at;
  await using hook = await receiver({
    respond: (response, _request, index) => void response.writeHead(index < 2 ? 503 : 204).end(),
  });
  const directory = await at.directory(hook.url);
  const delays: RetryDelays = [1, 1, 1];
  const first = at.dispatch(nodes.other, delays);
  at.dispatch(nodes.one, delays);
  await first.transact(async (tx) => ({
    value: undefined,
    destinations: await enqueue(tx, ...events(directory, 1, nodes.other)),
  }));
  await delivered(nodes, 1);
  const times = hook.requests.map(({ at: time }) => time);
  assert.equal(times.length, 3);
  for (const wait of [(times[1] ?? 0) - (times[0] ?? 0), (times[2] ?? 0) - (times[1] ?? 0)])
    assert.ok(wait > 700 && wait < 4000, `a wait took ${wait} ms`);
});

test('queued webhooks go to the directory’s new receiver, once', postgresOnly, async () => {
  await using at = await place();
  const { nodes } = at;
  await using hooks = new AsyncDisposableStack();
  const [before, after] = [hooks.use(await receiver()), hooks.use(await receiver())];
  const [directory, stays] = [await at.directory(before.url), await at.directory(before.url)];
  await put(nodes.one, events(directory, 150, nodes.one));
  await put(nodes.one, events(stays, 30, nodes.one));
  await setUrl(nodes.other, directory.id, after.url);
  const path = before.url.replace('/hook', '/other');
  await setUrl(nodes.other, stays.id, path);
  for (const node of [nodes.one, nodes.other]) at.dispatch(node);
  await delivered(nodes, 180);
  assertOnce([before, after], 180);
  assert.equal(after.requests.length, 150);
  assert.ok(before.requests.every(({ path: asked }) => asked === '/other'));
  const { rows } = await sql<{ most: number; attempts: number }>`
    select max(attempts) as most, (select count(*) from attempts) as attempts from deliveries
  `.execute(nodes.reads);
  assert.deepEqual(rows, [{ most: 1, attempts: 180 }]);
});

test('replays that both nodes are asked for go out once each', postgresOnly, async () => {
  await using at = await place();
  const { nodes } = at;
  let status = 410;
  await using hook = await receiver({ respond: (response) => void response.writeHead(status).end() });
  const directory = await at.directory(hook.url);
  await put(nodes.one, events(directory, 120, nodes.one));
  const both = [nodes.one, nodes.other].map((node) => ({ node, dispatcher: at.dispatch(node, [0.01, 0.01, 0.01]) }));
  await until('all have failed', async () => (await open(nodes)).length === 0);
  status = 204;
  const known = hook.requests.length;
  const target = { accountId: directory.account_id, id: directory.id };
  const asked = both.map(({ node, dispatcher }) =>
    replayFailed({ ...node, wake: () => dispatcher.wake() }, target, { since: 0 }),
  );
  const counts = await Promise.all(asked);
  assert.equal(
    counts.reduce((sum, { count }) => sum + count, 0),
    120,
  );
  await using loops = new AsyncDisposableStack();
  for (const { node, dispatcher } of both) {
    const background = createBackground(createLog('silent'));
    loops.adopt(startReplayQueue({ ...node, transact: dispatcher.transact, background }), (loop) => loop.close());
  }
  await delivered(nodes, 120);
  assert.equal(hook.requests.length - known, 120);
});

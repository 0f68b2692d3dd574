/**
 * A process with an outbox, its dispatcher and a healthy receiver, for `compare.ts`. Its first argument is JSON:
 * the URLs of dead receivers and how many webhooks are queued for each. Answers each message, a number, with the
 * latencies of that many webhooks in turn, in ms from the commit to the request at the healthy receiver.
 */
import { enqueue } from '../../../src/deliveries/webhooks/outbox.ts';
import { until } from '../../support/poll.ts';
import { receiver } from '../../support/receiver.ts';
import { outboxPlace } from '../outbox-place.ts';

const { dead, each } = JSON.parse(process.argv[2] ?? '') as { dead: string[]; each: number };
/** Attempts begun when the crowd has what it can get: two for each dead receiver but the refused ones. */
const crowded = Math.floor(dead.length * 1.4);

/** At the start of each turn: what came due while this process stood still, all of it at once, is nothing that a running one has. */
const UNCOUNTED = 10;

await using place = await outboxPlace({ retryDelays: [10, 60, 300] });
await using healthy = await receiver();
const first = await Promise.all(dead.map((url) => place.event(url)));
const queued = Array.from({ length: each }, () => first.map((event) => ({ ...event, uploadedAt: place.clock.now() })));
await place.database.db.transaction().execute((tx) => enqueue(tx, ...queued.flat()));
const dispatcher = place.start();
dispatcher.wake();
await until('the dead have all the attempts that they can get', async () => {
  const { count } = await place.database.db
    .selectFrom('attempts')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count >= crowded;
});

const done = Promise.withResolvers<void>();
process.on('disconnect', done.resolve);
process.on('message', (count: number) => void deliver(count).then((latencies) => process.send?.(latencies)));
await deliver(100); // the code is warm, the receiver proven
process.send?.('ready');
await done.promise;

async function deliver(count: number): Promise<number[]> {
  const latencies: number[] = [];
  for (let i = -UNCOUNTED; i < count; i += 1) {
    const event = await place.event(healthy.url);
    await place.database.db.transaction().execute((tx) => enqueue(tx, event));
    const committed = performance.now();
    dispatcher.wake();
    const { at } = await healthy.next();
    if (i >= 0) latencies.push(at - committed);
  }
  return latencies;
}

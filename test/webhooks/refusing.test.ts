/** Many refusing destinations with nothing else to wake the dispatcher: each has its turns, and nobody waits for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enqueue, type UploadEvent } from '../../src/webhooks/outbox.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

const REFUSING = 64;
const EACH = 3;
const ATTEMPTS = 4 * EACH;

test('64 refusing destinations have all their attempts in turn, and a working receiver of their account feels none of it', async () => {
  await using place = await outboxPlace({ retryDelays: [0.5, 0.5, 0.5] });
  await using working = await receiver();
  let ended = 0;
  const dispatcher = place.start(({ outcome }) => void (ended += outcome === 'delivered' ? 0 : 1));
  const upload = async (...urls: string[]): Promise<void> => {
    const events: UploadEvent[] = [];
    for (const url of urls) events.push(await place.event(url));
    return dispatcher.transact(async (tx) => ({ value: undefined, destinations: await enqueue(tx, ...events) }));
  };
  // Nothing listens on port 1.
  const refusing = Array.from({ length: REFUSING }, (_, i) => `http://127.0.2.${i + 1}:1/`);
  for (let i = 0; i < EACH; i += 1) await upload(...refusing);

  const { db } = place.database;
  const attempts = async (): Promise<number[]> => {
    const rows = await db
      .selectFrom('deliveries')
      .select(({ fn }) => fn.sum<number>('attempts').as('made'))
      .where('url', 'in', refusing)
      .groupBy('destination')
      .execute();
    return rows.map(({ made }) => made);
  };
  // As yet they are new, and all begin at once.
  await until('each has been tried', () => ended >= 2 * REFUSING);
  // One file for the working receiver now and then: it is there before the dead have had many more attempts.
  const beside: number[] = [];
  const isFirstDone = async (): Promise<boolean> => Math.max(...(await attempts())) === ATTEMPTS;
  while (!(await isFirstDone())) {
    const before = ended;
    await upload(working.url);
    await working.next();
    beside.push(ended - before);
  }
  const least = Math.min(...(await attempts()));
  assert.ok(least > ATTEMPTS / 2, `one has had all its ${ATTEMPTS} attempts, another one ${least}`);
  const most = Math.max(...beside);
  assert.ok(most < REFUSING, `a working receiver waited for ${most} attempts at dead ones`);
  await until('all have had all', async () => Math.min(...(await attempts())) === ATTEMPTS, 60);
});

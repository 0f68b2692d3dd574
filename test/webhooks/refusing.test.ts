/**
 * Many refusing destinations with nothing else to wake the dispatcher: each has its turns, and nobody waits for them, not
 * even a receiver that is slow.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { enqueue, type UploadEvent } from '../../src/deliveries/webhooks/outbox.ts';
import { percentile } from '../support/percentile.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { outboxPlace } from './outbox-place.ts';

const REFUSING = 64;
const EACH = 3;
const ATTEMPTS = 4 * EACH;

/** How long the slow receiver takes for an answer, in ms: longer than one that counts as quick. */
const SLOW_MS = 1100;

test('64 refusing destinations have all their attempts in turn, and other receivers of their account hardly wait', async () => {
  await using place = await outboxPlace({ retryDelays: [0.5, 0.5, 0.5] });
  await using working = await receiver();
  await using slow = await receiver({
    respond: (response) => void setTimeout(() => response.writeHead(204).end(), SLOW_MS),
  });
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
  // Files for the slow receiver, one after the other. The first makes berth notice that it is slow.
  const waits: number[] = [];
  const over = new AbortController();
  const besideSlow = (async () => {
    while (!over.signal.aborted) {
      const sent = performance.now();
      await upload(slow.url);
      const { at } = await slow.next();
      waits.push(at - sent);
      await sleep(SLOW_MS + 100);
    }
  })();
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
  over.abort();
  await besideSlow;
  assert.ok(waits.length >= 5, `${waits.length} files for the slow receiver`);
  assert.ok(percentile(waits, 0.5) <= 500, `a slow receiver waited for ${waits.map(Math.round).join(', ')} ms`);
  await until('all have had all', async () => Math.min(...(await attempts())) === ATTEMPTS, 60);
});

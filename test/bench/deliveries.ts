/** 20,000 queued webhooks for one fast receiver, beside a bare loop of got POSTs at the same concurrency. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../src/clock.ts';
import { openDatabase } from '../../src/db/open.ts';
import { enqueue } from '../../src/webhooks/outbox.ts';
import { payload } from '../../src/webhooks/outbox.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { startServe } from '../support/serve-process.ts';
import { startChild } from './child.ts';
import { type Bench, inTurns, rateFigure } from './harness.ts';
import { serveBerth } from './served.ts';

/** What `webhooks/slots.ts` gives a receiver that answers quickly. */
const AT_A_TIME = 32;

export const deliveries: Bench = {
  name: 'deliveries',
  async run(size) {
    const [rounds, count] = size === 'tiny' ? [1, 50] : [5, 20_000];
    using place = scratch();
    await using receiver = await countingReceiver();
    await using loop = startChild('got-loop.ts');
    const { config, environment, event } = await oneDirectory(place, receiver.url);

    const ours = async (): Promise<number> => {
      const database = await openDatabase(config.databaseFile);
      const now = systemClock().now();
      for (let i = 0; i < count; i += 1000) {
        const some = Array.from({ length: Math.min(1000, count - i) }, () => ({ ...event, now }));
        await database.db.transaction().execute((tx) => enqueue(tx, ...some));
      }
      await database.close();
      receiver.reset();
      await using serve = await startServe(config, environment);
      await until('everything is delivered', () => receiver.times.length >= count, 120);
      await serve.kill('SIGTERM');
      return rateOf(receiver.times);
    };
    const body = payload(event).toString();
    const theirs = async (): Promise<number> =>
      (await loop.ask<{ rate: number }>({ url: receiver.url, body, count, atATime: AT_A_TIME })).rate;
    const what = `deliveries to a fast receiver, ${count.toLocaleString('en')} queued, beside a bare loop of got`;
    return [rateFigure(what, 0.7, await inTurns(rounds, ours, theirs), 'POST/s')];
  },
};

/** From the first to the last arrival: how long berth takes to start is another bench's affair. */
function rateOf(times: readonly number[]): number {
  return ((times.length - 1) * 1000) / ((times.at(-1) ?? 0) - (times[0] ?? 0));
}

/** Makes a directory, then stops berth. */
async function oneDirectory(place: Parameters<typeof serveBerth>[0], url: string) {
  await using berth = await serveBerth(place);
  const { id } = await berth.directory(url);
  await berth.serve.kill('SIGTERM');
  const database = await openDatabase(berth.config.databaseFile);
  const directory = await database.db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  await database.close();
  const now = systemClock().now();
  const event = { directory, filename: 'invoice-2026-11.pdf', sizeBytes: 123_456, uploadedAt: now, now };
  return { config: berth.config, environment: berth.environment, event };
}

async function countingReceiver() {
  let times: number[] = [];
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      times.push(performance.now());
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    get times() {
      return times;
    },
    reset: () => (times = []),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

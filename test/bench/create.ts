/** `POST /directories`, one at a time: answered when the login works. */
import { setTimeout as wait } from 'node:timers/promises';
import { startBerths } from './berths.ts';
import { type Bench, figures, inTurns, median } from './harness.ts';

/** The pause after each create, in ms, like that between customers' creates. */
const PAUSE = 20;

export const create: Bench = {
  name: 'create',
  async run(size, trees) {
    const [rounds, count] = size === 'tiny' ? [1, 3] : [7, 40];
    await using berths = await startBerths(trees);
    const medians = await inTurns(rounds, berths.all, async ({ directory }) => {
      const latencies: number[] = [];
      for (let i = 0; i < count; i += 1) {
        const began = performance.now();
        await directory();
        latencies.push(performance.now() - began);
        await wait(PAUSE);
      }
      return median(latencies);
    });
    return figures('POST /directories, one at a time: p50', 'ms', {}, trees, medians);
  },
};

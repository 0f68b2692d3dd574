/** Authenticated `GET /directories/:id` over 32 kept TLS connections. */
import { startBerths } from './berths.ts';
import { type Bench, figures, inTurns } from './harness.ts';
import { load } from './load.ts';

export const get: Bench = {
  name: 'get',
  async run(size, trees) {
    const [rounds, connections, seconds] = size === 'tiny' ? [1, 4, 0.1] : [7, 32, 2];
    await using berths = await startBerths(trees);
    const sides = await Promise.all(
      berths.all.map(async (berth) => ({ ...berth, path: `/api/v1/directories/${(await berth.directory()).id}` })),
    );
    const rates = await inTurns(rounds, sides, ({ ca, key, path, config }) =>
      load({ ca, key, path, port: config.api.port, connections, seconds }),
    );
    return figures('GET /directories/:id over 32 connections', '/s', {}, trees, rates);
  },
};

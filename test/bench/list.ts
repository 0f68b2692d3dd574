/** `GET /directories` of an account with 100 of them. */
import { againstHono } from './against-hono.ts';
import type { Bench } from './harness.ts';

export const list: Bench = {
  name: 'list',
  run: (size) =>
    againstHono('GET /directories with 100 of them, beside bare Hono', 0.5, size, async (berth) => {
      for (let i = 0; i < (size === 'tiny' ? 3 : 100); i += 1) await berth.directory();
      return 'directories';
    }),
};

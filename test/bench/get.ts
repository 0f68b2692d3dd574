/** Authenticated `GET /directories/:id` over 32 kept TLS connections. */
import { againstHono } from './against-hono.ts';
import type { Bench } from './harness.ts';

export const get: Bench = {
  name: 'get',
  run: (size) =>
    againstHono('GET /directories/:id, beside bare Hono', 0.6, size, async (berth) => {
      const { id } = await berth.directory();
      return `directories/${id}`;
    }),
};

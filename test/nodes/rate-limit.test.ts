/** An account's rate limit counts requests to all nodes together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBackground } from '../../src/foundation/base/background.ts';
import { BerthError } from '../../src/foundation/base/errors.ts';
import { createSharedRateLimit } from '../../src/interfaces/web/rate-limits.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { succeeded, twoWriters, type TwoWriters } from './two-writers.ts';

const LIMIT = 120;
const isLimited = (error: unknown): boolean => error instanceof BerthError && error.code === 'rate_limited';

function limits({ one, other }: TwoWriters, parts: AsyncDisposableStack) {
  return [one, other].map(({ database }) =>
    parts.adopt(
      createSharedRateLimit({ limit: LIMIT, database, background: createBackground(createLog('silent')) }),
      (limit) => limit.close(),
    ),
  );
}

const minutes = ({ reads }: TwoWriters) =>
  reads.selectFrom('request_counts').selectAll().orderBy('account_id').orderBy('minute').execute();

test(
  'of requests to two nodes at once exactly as many are let in as the limit says; no other is counted',
  postgresOnly,
  async () => {
    await using nodes = await twoWriters();
    await using parts = new AsyncDisposableStack();
    const both = limits(nodes, parts);
    const flood = async (account: string): Promise<number> => {
      const clients = Array.from({ length: 12 }, async (_, i) => {
        const takes = [];
        for (let k = 0; k < 40; k += 1) {
          const take = Promise.resolve(both[i % 2]?.take(account));
          takes.push(take);
          await take.catch(() => undefined);
        }
        return succeeded(takes, isLimited);
      });
      return (await Promise.all(clients)).reduce((all, each) => all + each, 0);
    };
    const [first, second] = await Promise.all([flood('first'), flood('second')]);
    const rows = await minutes(nodes);
    const sum = (account: string): number =>
      rows.filter(({ account_id }) => account_id === account).reduce((all, { requests }) => all + requests, 0);
    // In each minute that it took.
    assert.ok(rows.every(({ requests }) => requests <= LIMIT));
    assert.deepEqual([first, second], [sum('first'), sum('second')]);
    assert.ok(first >= LIMIT && second >= LIMIT);
  },
);

test('counts of other minutes go, whichever way the server’s clock was set', postgresOnly, async () => {
  await using nodes = await twoWriters();
  const stale = [1, 1e9].map((minute) => ({ account_id: 'a', minute, requests: LIMIT }));
  await nodes.one.database.db.insertInto('request_counts').values(stale).execute();
  await using parts = new AsyncDisposableStack();
  const [limit] = limits(nodes, parts);
  await limit?.take('a');
  await until('they are gone', async () => (await minutes(nodes)).length === 1);
  assert.equal((await minutes(nodes))[0]?.requests, 1);
});

/** A customer with very many files that cannot be checked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { Rounds } from '../../src/arrivals/checks/rounds.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { filesContext } from '../support/files-context.ts';
import { createGround } from '../../src/foundation/context.ts';

const FILES = 1000;

test('the cost of a turn does not grow with the files that have failed', async () => {
  using place = scratch();
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: 1, filesEach: FILES });
  const database = await openDatabase(config.database);
  await using parts = new AsyncDisposableStack();
  parts.defer(() => database.close());
  await database.db.updateTable('files').set({ state: 'checking' }).execute();
  let read = 0;
  const counting: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      read += result.rows.length;
      return result;
    },
  };
  const log = createLog('silent');
  const failed = new Set<string>();
  const unused = (): never => assert.fail('nothing is checked');
  // The size is refused before a file is opened.
  const check = { by: { kind: 'exec', socket: '' }, seconds: 1, maxBytes: -1, whenUnavailable: 'wait' } as const;
  const ground = createGround({
    config: { ...config, settleSeconds: 0, check },
    database: { ...database, reads: database.reads.withPlugin(counting) },
    clock: systemClock(),
    log,
  });
  const rounds = new Rounds(filesContext(ground), {
    decisions: {
      pass: unused,
      passAll: unused,
      reject: unused,
      failed: async (_directory, { id }) => void failed.add(id),
    },
    quarantine: { putBack: unused },
    checker: { check: unused, hello: unused },
    observe: () => undefined,
  });
  parts.defer(() => rounds.close());
  await until('each file has failed once', () => failed.size === FILES, 60);
  assert.ok(read < 100 * FILES, `${read} rows were read`);
});

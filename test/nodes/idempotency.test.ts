/** A request with an Idempotency-Key that reaches two nodes is done once, and every answer to it is the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fc } from '../support/fast-check.ts';
import { insertKept } from '../../src/rules/history/stored-responses.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { type Hosted, hosted } from '../support/hosted.ts';
import { postgresOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';

interface Both extends AsyncDisposable {
  readonly one: Hosted;
  readonly sends: readonly [Send, Send];
}

async function both(): Promise<Both> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const one = parts.use(await hosted(place));
  const other = parts.use(await hosted(place));
  const owned = parts.move();
  return {
    one,
    sends: [one.send, other.client.as(one.tenant.key)],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const create = (send: Send, key: string, name = 'Acme'): Promise<ApiAnswer> =>
  send('POST', '/directories', { json: { directory: { name } }, headers: { 'idempotency-key': key } });

/** As clients do: again while it is in flight. */
async function answered(ask: () => Promise<ApiAnswer>): Promise<ApiAnswer> {
  for (;;) {
    const answer = await ask();
    if (answer.status !== 409) return answer;
    assert.equal(answer.headers['retry-after'], '1');
    await sleep(20);
  }
}

const directories = async ({ one }: Both): Promise<number> =>
  (await one.database.reads.selectFrom('directories').select('id').execute()).length;

test('creates with the same keys on two nodes at once make one directory each', postgresOnly, async () => {
  await using nodes = await both();
  const keys = Array.from({ length: 15 }, (_, i) => `order-${i}`);
  const asks = keys.flatMap((key) => [0, 1, 0, 1].map((node) => ({ key, send: nodes.sends[node === 0 ? 0 : 1] })));
  const answers = await Promise.all(
    asks.map(async ({ key, send }) => ({ key, ...(await answered(() => create(send, key))) })),
  );
  for (const same of Map.groupBy(answers, ({ key }) => key).values()) {
    assert.deepEqual(new Set(same.map(({ status }) => status)), new Set([201]));
    assert.equal(new Set(same.map(({ text }) => text)).size, 1);
    assert.equal(same.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length, 1);
  }
  assert.equal(await directories(nodes), keys.length);
});

test('while one node works on it the other says so, even when the change is committed', postgresOnly, async () => {
  await using nodes = await both();
  const { host } = nodes.one;
  const working = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const apply = host.apply.bind(host);
  host.apply = async (directory) => {
    begun.resolve();
    await working.promise;
    return apply(directory);
  };
  const first = create(nodes.sends[0], 'k');
  await begun.promise;
  assert.equal((await create(nodes.sends[1], 'k')).status, 409);
  working.resolve();
  const { status, text } = await first;
  assert.equal(status, 201);
  assert.equal((await answered(() => create(nodes.sends[1], 'k'))).text, text);
  assert.equal(
    (await nodes.sends[1]('POST', '/directories', { json: {}, headers: { 'idempotency-key': 'k' } })).status,
    422,
  );
});

test('when two answers are stored for one request, the second is refused with its change', postgresOnly, async () => {
  await using nodes = await both();
  const { database, tenant } = nodes.one;
  const row = { id: 'k', account_id: tenant.accountId, request: 'r', answer: Buffer.from('first'), inserted_at: 5 };
  const keep = (answer: string, replaced?: typeof row): Promise<boolean> =>
    database.db
      .transaction()
      .execute((tx) => insertKept(tx, { ...row, answer: Buffer.from(answer), inserted_at: 9 }, replaced));
  await database.db.insertInto('kept_answers').values(row).execute();
  assert.equal(await keep('second'), false);
  assert.equal(await keep('third', { ...row, inserted_at: 4 }), false);
  assert.equal(await keep('in place of the old one', row), true);
});

test('random requests, repeated and mixed up, on two nodes', postgresOnly, async () => {
  await using nodes = await both();
  const request = fc.record({ key: fc.nat(3), name: fc.constantFrom('A', 'A', 'B'), node: fc.constantFrom(0, 1) });
  let run = 0;
  const story = fc.asyncProperty(
    fc.array(fc.array(request, { minLength: 1, maxLength: 5 }), { maxLength: 4 }),
    async (rounds) => {
      run += 1;
      const before = await directories(nodes);
      const seen = new Map<number, { name: string; text: string }>();
      for (const round of rounds) {
        const asked = await Promise.all(
          round.map(async ({ key, name, node }) => {
            const send = nodes.sends[node === 0 ? 0 : 1];
            return { key, name, ...(await answered(() => create(send, `${run}-${key}`, name))) };
          }),
        );
        for (const { key, name, status, text } of asked.filter((each) => each.status === 201)) {
          const known = seen.get(key) ?? { name, text };
          assert.deepEqual({ name, text, status }, { ...known, status: 201 });
          seen.set(key, known);
        }
        for (const { key, name, status } of asked) assert.equal(status, seen.get(key)?.name === name ? 201 : 422);
      }
      assert.equal((await directories(nodes)) - before, seen.size);
    },
  );
  await fc.assert(story, { numRuns: Number(process.env['RUNS'] ?? 25) });
});

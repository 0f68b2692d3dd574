/** Each attempt uses the current URL and secret, and takes the turns of its current destination. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Updateable } from 'kysely';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { enqueue } from '../../src/deliveries/webhooks/outbox.ts';
import { verify } from '../../src/deliveries/webhooks/signature.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { ACCOUNT, directory, type OutboxPlace, outboxPlace, SECRET } from './outbox-place.ts';

async function change(place: OutboxPlace, url: string, changes: Updateable<DirectoryRow>): Promise<void> {
  const { id } = directory(url);
  await place.database.db.updateTable('directories').set(changes).where('id', '=', id).execute();
}

test('the next attempt goes to the changed URL with the changed secret, the same bytes under the same id', async () => {
  await using place = await outboxPlace();
  await using after = await receiver();
  const changes = { webhook_secret: 'another secret', webhook_url: after.url };
  await using before = await receiver({
    respond: (response) => void change(place, before.url, changes).then(() => response.writeHead(500).end()),
  });
  const dispatcher = place.start();
  const id = await place.put(before.url);
  dispatcher.wake();
  const first = await before.next();
  const second = await after.next();
  const row = await place.until(id, 'delivered');
  assert.deepEqual(second.body, first.body);
  assert.equal(second.headers['webhook-id'], id);
  assert.ok(verify(first.body, SECRET, String(first.headers['x-service-signature'])));
  assert.ok(verify(second.body, 'another secret', String(second.headers['x-service-signature'])));
  assert.equal(before.requests.length, 1);
  assert.deepEqual([row.url, row.attempts], [after.url, 2]);
  assert.equal(row.destination, `${ACCOUNT} ${new URL(after.url).origin}`);
});

test('another path at the same receiver is used too, and the row says where it went', async () => {
  await using place = await outboxPlace();
  await using target = await receiver({
    respond: (response, { path }) => {
      if (path === '/new') response.writeHead(204).end();
      else void change(place, target.url, { webhook_url: moved }).then(() => response.writeHead(404).end());
    },
  });
  const moved = target.url.replace('/hook', '/new');
  const dispatcher = place.start();
  const id = await place.put(target.url);
  dispatcher.wake();
  assert.equal((await place.until(id, 'delivered')).url, moved);
});

test('without a URL a delivery fails for good and says so; nobody is asked, and the destination does not suffer', async () => {
  await using place = await outboxPlace();
  await using target = await receiver();
  const outcomes: string[] = [];
  const dispatcher = place.start(({ outcome }) => outcomes.push(outcome));
  const id = await place.put(target.url);
  await change(place, target.url, { webhook_url: null });
  dispatcher.wake();
  const row = await place.until(id, 'failed');
  assert.deepEqual([row.attempts, row.url, row.due_at], [1, target.url, null]);
  const [attempt] = await place.attempts(id);
  assert.equal(attempt?.error, 'the directory has no webhook URL any more');
  assert.deepEqual([attempt?.status, target.requests.length, outcomes], [null, 0, ['failed']]);
});

test('a dead receiver’s long queue moves to the new one in its order, past deliveries that stay with the dead one', async () => {
  await using place = await outboxPlace({ retryDelays: [60, 60, 60] });
  await using silent = await receiver({ respond: () => undefined });
  await using working = await receiver();
  const [mine, other] = [silent.url, `${silent.url}/other`];
  const event = await place.event(mine);
  const staying = await place.event(other);
  const { db } = place.database;
  await db.transaction().execute(async (tx) => {
    for (let i = 0; i < 250; i += 1) {
      // No two uploads have the same moment, by which they are in order.
      const moved = { ...event, filename: String(i), uploadedAt: event.uploadedAt + i };
      await enqueue(tx, moved, { ...staying, filename: `other ${i}`, uploadedAt: staying.uploadedAt + 250 + i });
    }
  });
  const dispatcher = place.start();
  dispatcher.wake();
  // The attempts that a new destination may have are under way; all else waits for them.
  await silent.next();
  await silent.next();
  await change(place, mine, { webhook_url: working.url });
  await until('all but those under way are there', () => working.requests.length >= 248);
  const begun = await db
    .selectFrom('attempts')
    .innerJoin('deliveries', 'deliveries.id', 'attempts.delivery_id')
    .select(['started_at', 'body'])
    .where('url', '=', working.url)
    .execute();
  const nameOf = (body: Buffer): number => Number((JSON.parse(body.toString()) as { filename: string }).filename);
  const byName = begun.toSorted((one, another) => nameOf(one.body) - nameOf(another.body));
  const times = byName.map(({ started_at }) => started_at);
  assert.deepEqual(
    times,
    times.toSorted((one, another) => one - another),
  );
  const left = await db.selectFrom('deliveries').select('directory_id').where('state', '=', 'queued').execute();
  assert.deepEqual([...new Set(left.map((row) => row.directory_id))], [directory(other).id]);
});

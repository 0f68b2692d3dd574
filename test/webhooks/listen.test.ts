/** `berth listen`: its output, and that it judges signatures correctly. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { Invocation } from '../../src/cli/invocation.ts';
import { runProgram } from '../../src/cli/program.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { listen, secretInDatabase } from '../../src/interfaces/listen/listen.ts';
import { PLAIN } from '../support/directory-rows.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { directory, type OutboxPlace, outboxPlace, SECRET } from './outbox-place.ts';

/** Receives one delivery with all its attempts, and gives back what was printed. */
async function received(
  place: OutboxPlace,
  { status = 200, secret, filename = 'in/orders.csv' }: { status?: number; secret?: string; filename?: string } = {},
): Promise<string> {
  let shown = '';
  const listening = await listen({
    port: 0,
    status,
    delay: 0,
    secretOf: async (id) => (id === directory(listening.url).id ? secret : undefined),
    print: (text) => (shown += text),
  });
  const dispatcher = place.start();
  const id = await place.put(listening.url, { filename });
  dispatcher.wake();
  await place.until(id, 'delivered', 'failed');
  await listening.close();
  return shown;
}

test('it shows a webhook and says that the signature is right', async () => {
  await using place = await outboxPlace();
  const shown = await received(place, { secret: SECRET });
  assert.match(
    shown,
    /^\d\d:\d\d:\d\d\.\d{3} {2}file\.uploaded: "in\/orders\.csv", 12 bytes\n {2}directory orders \([\da-f]{8}-\S+\), external_id "order \\"42\\""\n/,
  );
  assert.match(
    shown,
    /attempt 1 of delivery "[0-9a-f-]{36}", sent at 20\d\d-\S+Z\n {2}signature right\n {2}answered 200\n$/,
  );
});

test('it says when the signature is wrong or cannot be checked', async () => {
  await using place = await outboxPlace();
  assert.match(await received(place, { secret: 'another' }), /signature WRONG/);
  assert.match(await received(place), /signature not checked.*--secret/);
});

test('with a failing status it shows all four attempts', async () => {
  await using place = await outboxPlace();
  const shown = await received(place, { status: 500 });
  assert.deepEqual(
    [...shown.matchAll(/attempt (\d)/g)].map(([, number]) => number),
    ['1', '2', '3', '4'],
  );
  assert.match(shown, /answered 500/);
});

test('a filename cannot play tricks on the terminal', async () => {
  await using place = await outboxPlace();
  const shown = await received(place, { filename: 'a\u{1b}[2J\u{9b}31m\u{202e}b\nc"' });
  assert.ok(shown.includes(String.raw`"a\u001b[2J\u{9b}31m\u{202e}b\nc\""`), shown);
});

test('a request that is not a webhook does not end the receiver', async () => {
  let shown = '';
  const secretOf = async (): Promise<undefined> => undefined;
  const listening = await listen({ port: 0, status: 200, delay: 0, secretOf, print: (text) => (shown += text) });
  assert.equal((await fetch(listening.url)).status, 405);
  assert.equal((await fetch(listening.url, { method: 'POST', body: 'no JSON' })).status, 200);
  assert.equal((await fetch(listening.url, { method: 'POST', body: 'null' })).status, 200);
  await listening.close();
  assert.match(shown, /GET "\/": not a webhook[^]*not JSON, 7 bytes: "no JSON"[^]*signature missing/);
});

test('a port that is taken or invalid is one clear line', async () => {
  await using taken = await receiver();
  const { port } = new URL(taken.url);
  let errors = '';
  const invocation: Invocation = {
    environment: {},
    config: () => readConfig({ BERTH_STATE_DIR: '/nonexistent' }),
    clock: systemClock(),
    stdout: () => undefined,
    stderr: (text) => void (errors += text),
    print: () => undefined,
    stopped: new AbortController().signal,
    catchSignals: () => AbortSignal.abort(),
  };
  assert.equal(await runProgram(['listen', '--port', port], invocation), 1);
  assert.equal(errors, `berth: port ${port} is taken by another program: choose a free one with --port\n`);
  assert.equal(await runProgram(['listen', '--port', '0'], invocation), 0);
  assert.equal(await runProgram(['listen', '--port', '90000'], invocation), 2);
});

test('the secret is looked up in the database, and no database is made where there is none', async () => {
  using place = scratch();
  const file = `${place.dir}/berth.db`;
  assert.equal(await secretInDatabase(file, 'd'), undefined);
  assert.ok(!existsSync(file));
  const { db, close } = await openDatabase(file);
  await db.insertInto('accounts').values({ id: 'a', name: 'a', plan: 'pro', inserted_at: 1 }).execute();
  await db.insertInto('principals').values({ uid: 7, username: 'u' }).execute();
  await db
    .insertInto('directories')
    .values({
      ...PLAIN,
      id: 'd',
      account_id: 'a',
      name: 'd',
      slug: 'd',
      uid: 7,
      sftp_username: 'u',
      webhook_secret: SECRET,
      inserted_at: 1,
      updated_at: 1,
    })
    .execute();
  await close();
  assert.equal(await secretInDatabase(file, 'd'), SECRET);
  assert.equal(await secretInDatabase(file, 'other'), undefined);
});

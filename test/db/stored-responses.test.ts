/** What the database stores of a response for an Idempotency-Key, and for how long. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { sql } from 'kysely';
import { DAY, SECOND } from '../../src/foundation/base/clock.ts';
import { confirmClock, createClockLead } from '../../src/foundation/db/clock-lead.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import { placeOf } from '../../src/rules/history/stored-responses.ts';
import { pruneHistory } from '../../src/rules/history/removal.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { hosted } from '../support/hosted.ts';
import { onPostgres } from '../support/postgres.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';

const ACME = { directory: { name: 'Acme' } };

/** Every byte that the database holds. */
async function everythingIn({ db }: Database, { config }: Scratch): Promise<Buffer> {
  const { databaseFile } = config;
  if (!onPostgres) return Buffer.concat([databaseFile, `${databaseFile}-wal`].map((file) => readFileSync(file)));
  const tables = await sql<{
    name: string;
  }>`select tablename as name from pg_tables where schemaname = 'public'`.execute(db);
  const rows: object[] = [];
  for (const { name } of tables.rows)
    rows.push(...(await sql<object>`select * from ${sql.table(name)}`.execute(db)).rows);
  const values: unknown[] = rows.flatMap((row) => Object.values(row));
  return Buffer.concat(values.map((value) => (Buffer.isBuffer(value) ? value : Buffer.from(String(value)))));
}

const create = (send: Send, key: string): Promise<ApiAnswer> =>
  send('POST', '/directories', { json: ACME, headers: { 'idempotency-key': key } });

test('the database alone opens nothing: neither the answer nor the request can be read or guessed from it', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { text, json } = await create(api.send, 'order-1');
  const { sftp_password: password } = (json as { data: { sftp_password: string } }).data;
  const row = await api.database.db.selectFrom('kept_answers').selectAll().executeTakeFirstOrThrow();
  const bytes = await everythingIn(api.database, place);
  for (const secret of [password, 'order-1', api.tenant.key]) assert.ok(!bytes.includes(secret), secret);

  const request = ['POST', '/api/v1/directories', Buffer.from(JSON.stringify(ACME))];
  const own = placeOf(api.tenant.key, 'order-1', request);
  assert.deepEqual([own.id, own.request], [row.id, row.request]);
  assert.equal((JSON.parse(own.open(row.answer)) as { body: string }).body, text);
  const { hash } = await api.database.db.selectFrom('api_keys').select('hash').executeTakeFirstOrThrow();
  for (const guess of [
    placeOf(hash, 'order-1', request),
    placeOf(api.tenant.key, 'order-2', request),
    placeOf(api.tenant.key, 'order-1', ['POST', '/api/v1/directories', '{}']),
  ]) {
    assert.throws(() => guess.open(row.answer));
  }
  for (let at = 0; at < row.answer.length; at += 7) {
    const changed = Buffer.from(row.answer);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => own.open(changed), `byte ${at} was changed`);
  }
});

test('an answer lives for 24 hours of time that has passed; then it is ignored, and removed with the history', async () => {
  using place = scratch();
  const clock = setClock();
  await using api = await hosted(place, { clock });
  const { database } = api;
  const confirm = (): Promise<number> => confirmClock({ database, clock });
  await confirm();
  const first = await create(api.send, 'k');
  clock.advance(DAY - SECOND);
  await confirm();
  assert.equal((await create(api.send, 'k')).text, first.text);
  clock.advance(-2 * DAY);
  assert.equal((await create(api.send, 'k')).text, first.text);
  clock.advance(9 * DAY);
  assert.equal((await create(api.send, 'k')).text, first.text);
  await confirm();
  const second = await create(api.send, 'k');
  assert.equal(second.status, 201);
  assert.notEqual(second.text, first.text);
  assert.equal((await create(api.send, 'k')).text, second.text);
  await create(api.send, 'late');

  const log = createLog('silent');
  const options = { ...api.rules, clockLead: createClockLead({ database, clock, log }) };
  const kept = async (): Promise<number> => (await database.db.selectFrom('kept_answers').selectAll().execute()).length;
  await pruneHistory(options, new AbortController().signal);
  assert.equal(await kept(), 2);
  clock.advance(DAY + SECOND);
  await pruneHistory(options, new AbortController().signal);
  assert.equal(await kept(), 2, 'a clock that jumps makes nothing old');
  await confirm();
  await pruneHistory(options, new AbortController().signal);
  assert.equal(await kept(), 0);
});

test('an account’s stored responses have a limit in bytes: then requests with a new key are refused, and earlier keys still answer', async () => {
  using place = scratch();
  const clock = setClock();
  await using api = await hosted(place, { clock });
  const { database } = api;
  const { db } = database;
  const other = await api.account('business');
  const first = await create(api.send, 'k');
  await create(other.send, 'k');
  await api.send('POST', '/directories', { json: {}, headers: { 'idempotency-key': 'refused' } });
  const totals = () => db.selectFrom('kept_answer_totals').selectAll().orderBy('account_id').execute();
  const counted = await totals();
  const rows = await db.selectFrom('kept_answers').select(['account_id', 'answer']).orderBy('account_id').execute();
  assert.deepEqual(
    counted,
    rows.map(({ account_id, answer }) => ({ account_id, bytes: answer.length })),
  );
  await db
    .updateTable('kept_answer_totals')
    .set({ bytes: 2 ** 28 })
    .where('account_id', '=', api.tenant.accountId)
    .execute();
  const refused = await create(api.send, 'new');
  assert.equal(refused.status, 429);
  assert.match(refused.text, /Over 256 MiB of answers are kept.*try again later, or without the header/);
  assert.equal((await create(api.send, 'k')).text, first.text);
  assert.equal((await create(other.send, 'new')).status, 201);
  assert.equal((await api.send('POST', '/directories', { json: ACME })).status, 201);

  await confirmClock({ database, clock });
  clock.advance(2 * DAY);
  await confirmClock({ database, clock });
  const log = createLog('silent');
  const options = { ...api.rules, clockLead: createClockLead({ database, clock, log }) };
  await pruneHistory(options, new AbortController().signal);
  assert.deepEqual(await totals(), []);
  assert.equal((await create(api.send, 'new')).status, 201);
});

/** Removes history: what is older than `BERTH_HISTORY_DAYS`, and what an operator erases early. */
import { type Kysely, type SelectQueryBuilder, sql, type Transaction } from 'kysely';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import type { Ground, Store } from '../../foundation/context.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { numberBefore } from './events.ts';
import { ANSWER_LIFE, recountKept } from './stored-responses.ts';
import type { AccountTarget } from '../accounts/actor.ts';
import { insertAudit } from './audit.ts';
import { setTimeout } from 'node:timers/promises';

// Removes history that is older than `BERTH_HISTORY_DAYS`: transfers, events, audit rows, logins, totals by day, and
// finished deliveries with their attempts. Also removes stored responses that are older than a day. Works in small
// batches, so that no other writer waits long.

export async function pruneHistory({ config, database, clockLead, log }: Ground, signal: AbortSignal): Promise<void> {
  const { historyDays: days } = config;
  const { now } = await clockLead();
  const before = now - days * DAY;
  const { db } = database;
  const remove = (table: Batches['table'], found: Batches['found']): Promise<number> =>
    removeInBatches(db, { table, key: 'id', found }, signal);
  let rows = 0;
  await numberBefore(db, before, signal);
  for (const table of ['transfers', 'events', 'audit', 'logins'] as const)
    rows += await remove(table, db.selectFrom(table).select('id').where('at', '<', before).orderBy('at'));
  rows += await remove('deliveries', finishedDeliveries(db, before));
  await db
    .deleteFrom('daily_totals')
    .where('day', '<', before - DAY)
    .execute();
  if (rows > 0) log.info({ rows, days }, 'old history removed');
  const answers = db
    .selectFrom('kept_answers')
    .select('id')
    .where('inserted_at', '<', now - ANSWER_LIFE);
  if ((await remove('kept_answers', answers.orderBy('inserted_at'))) > 0) await recountKept(db);
}

/** Attempts are removed with their delivery (on delete cascade). A delivery that is still to be sent stays, however old. */
function finishedDeliveries(db: Kysely<Tables>, before: Micros) {
  return (
    db
      .selectFrom('deliveries')
      .select('id')
      .where('inserted_at', '<', before)
      .where('finished_at', '<', before)
      // A delivery whose replay is requested but not made yet stays.
      .where('replay_at', 'is', null)
      .orderBy('inserted_at')
  );
}

// Erasure: removes personal data from the history early. Transfers, logins, finished deliveries and the networks of
// users are removed. Rows of the audit and of the feed of events stay, but without names: the audit still shows who
// made a change, and readers of the feed rely on numbers without a gap.

/** The kind that an erased event has in the feed. Clients ignore unknown kinds. */
const ERASED_EVENT = 'erased' as const;

/** What to erase: the history of one directory, or of all directories and users that an account has or had. */
export type Erased = { readonly directory: string } | { readonly account: string };

export interface Erasure {
  readonly transfers: number;
  readonly logins: number;
  readonly deliveries: number;
  readonly events: number;
  /** Networks from which users of the dashboard have signed in. */
  readonly networks: number;
  readonly audit: number;
}

/** Can be interrupted and repeated. First commits a row of the audit that says who erases, then erases. */
export async function eraseHistory(
  { database: { db }, clock }: Store,
  target: AccountTarget,
  what: Erased,
  signal: AbortSignal,
): Promise<Erasure> {
  const directory = { id: 'directory' in what ? what.directory : '', sftp_username: '' };
  await db.transaction().execute((tx) => insertAudit(tx, target, { at: clock.now(), action: 'erase', directory }));
  const { column, value } = owner(what);
  const remove = (
    table: 'transfers' | 'logins' | 'deliveries',
    found: Parameters<typeof removeInBatches>[1]['found'],
  ) => removeInBatches(db, { table, key: 'id', found }, signal);
  const finished = db
    .selectFrom('deliveries')
    .select('id')
    .where(column, '=', value)
    .where('finished_at', 'is not', null)
    // A delivery whose replay is requested but not made yet stays.
    .where('replay_at', 'is', null);
  // Before the audit is erased, which knows the directories that the account had.
  const logins = await remove('logins', loginsOf(db, what));
  const transfers = await remove('transfers', db.selectFrom('transfers').select('id').where(column, '=', value));
  const deliveries = await remove('deliveries', finished);
  const events = await inBatches(db, signal, (tx) => eraseEvents(tx, what));
  const audit = await inBatches(db, signal, (tx) => eraseAudit(tx, what));
  const networks = 'account' in what ? await eraseNetworks(db, what.account) : 0;
  return { transfers, logins, deliveries, events, networks, audit };
}

function owner(what: Erased) {
  return 'directory' in what
    ? ({ column: 'directory_id', value: what.directory } as const)
    : ({ column: 'account_id', value: what.account } as const);
}

function loginsOf(db: Kysely<Tables>, what: Erased) {
  const logins = db.selectFrom('logins').select('id');
  if ('directory' in what) return logins.where('directory_id', '=', what.directory);
  const present = db.selectFrom('directories').select('id').where('account_id', '=', what.account);
  const past = db.selectFrom('audit').select('directory_id as id').where('account_id', '=', what.account);
  return logins.where('directory_id', 'in', present.union(past));
}

/** Runs `change` until it finds fewer rows than a batch. @returns how many rows were changed. */
async function inBatches(
  db: Kysely<Tables>,
  signal: AbortSignal,
  change: (tx: Transaction<Tables>) => Promise<number>,
): Promise<number> {
  let rows = 0;
  for (let changed = BATCH; changed === BATCH && !signal.aborted; rows += changed)
    changed = await db.transaction().execute(change);
  return rows;
}

async function eraseEvents(tx: Transaction<Tables>, what: Erased): Promise<number> {
  const { column, value } = owner(what);
  const some = await tx
    .selectFrom('events')
    .select(['id', 'body'])
    .where(column, '=', value)
    .where('event', '!=', ERASED_EVENT)
    .limit(BATCH)
    .execute();
  for (const { id, body } of some) {
    const erased = { event: ERASED_EVENT, body: JSON.stringify(nameless(JSON.parse(body) as object)) };
    await tx.updateTable('events').set(erased).where('id', '=', id).execute();
  }
  return some.length;
}

/** Replaces names in the bodies of events. */
const NAMELESS: Readonly<Record<string, unknown>> = {
  external_id: null,
  filename: '',
  previous_filename: '',
  sftp_username: '',
  address: null,
  reason: '',
  directory: '',
};

function nameless(body: object): object {
  const fields = Object.entries(body);
  return Object.fromEntries(
    fields.map(([name, value]) => [name, name in NAMELESS ? NAMELESS[name] : (value as unknown)]),
  );
}

async function eraseAudit(tx: Transaction<Tables>, what: Erased): Promise<number> {
  const { column, value } = owner(what);
  const some = tx
    .selectFrom('audit')
    .select('id')
    .where(column, '=', value)
    .where((eb) => eb.or([eb('username', '!=', ''), eb('changes', '!=', '{}')]))
    .limit(BATCH);
  const done = await tx
    .updateTable('audit')
    .set({ username: '', changes: '{}' })
    .where('id', 'in', some)
    .executeTakeFirst();
  return Number(done.numUpdatedRows);
}

async function eraseNetworks(db: Kysely<Tables>, account: string): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const users = tx.selectFrom('users').select('id').where('account_id', '=', account);
    await tx.updateTable('users').set({ signed_in_from: null }).where('account_id', '=', account).execute();
    const done = await tx.deleteFrom('user_networks').where('user_id', 'in', users).executeTakeFirst();
    return Number(done.numDeletedRows);
  });
}

// Removes many rows in bounded batches, so that other writers never wait long.

/** Rows in one transaction, which takes a few ms. */
const BATCH = 500;
/** The pause between batches, for other writers. */
const PAUSE_MS = 20;

/** The rows to remove: `found` selects their `key`, and is repeated with a limit. */
export interface Batches {
  readonly table: keyof Tables;
  readonly key: 'id' | 'hash';
  readonly found: SelectQueryBuilder<Tables, keyof Tables, object>;
}

/** Removes these rows, except those that another node is removing. Returns how many were removed. */
export async function removeInBatches(db: Kysely<Tables>, batches: Batches, signal: AbortSignal): Promise<number> {
  const { table, key, found } = batches;
  const some = found.limit(BATCH).forUpdate().skipLocked();
  let rows = 0;
  for (let removed = BATCH; removed === BATCH && !signal.aborted;) {
    const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ${sql.ref(key)} in ${some}`.execute(db);
    removed = Number(numAffectedRows);
    rows += removed;
    if (removed > 0) await setTimeout(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
  return rows;
}

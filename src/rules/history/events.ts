/**
 * The feed of an account's events: what happened in its directories, oldest first, under numbers without a gap.
 *
 * Promise: an event gets its number after it is committed, and the number is higher than every number that a reader has seen.
 * So a reader that continues from the highest number it has seen misses nothing, on one machine or on several.
 *
 * A transaction that adds an event takes no lock and no number. The next reader numbers the events that were committed since,
 * while it holds the account's row of `event_sequences`. An account without readers pays only for the inserts.
 */
import { setImmediate } from 'node:timers/promises';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { countRows } from '../../foundation/db/lists.ts';
import { compiled, compiledInsert } from '../../foundation/db/compiled.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { EventsTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';

export type NewEvent = Omit<EventsTable, 'id' | 'sequence'>;

/** An event with its number. */
export interface NumberedEvent extends Omit<NewEvent, 'account_id'> {
  readonly sequence: number;
}

/** Events that are numbered in one transaction, which takes a few ms. */
const BATCH = 1000;

const insert = compiledInsert('events', ['account_id', 'at', 'event', 'directory_id', 'upload_id', 'body']);

const after = compiled<{ account: string; after: number; limit: number }>()((db, p) =>
  db
    .selectFrom('events')
    .select(['sequence', 'at', 'event', 'directory_id', 'upload_id', 'body'])
    .where('account_id', '=', p('account'))
    .where('sequence', 'is not', null)
    .where('sequence', '>', p('after'))
    .orderBy('sequence')
    .limit(p('limit'))
    .$narrowType<{ sequence: number }>(),
);

const unnumbered = compiled<{ account: string }>()((db, p) =>
  db
    .selectFrom('events')
    .select('id')
    .where('account_id', '=', p('account'))
    .where('sequence', 'is', null)
    .orderBy('id')
    .limit(1),
);

/** Runs in the transaction that records the event. */
export async function insertEvents(tx: Transaction<Tables>, events: readonly NewEvent[]): Promise<void> {
  await insert(tx, events);
}

export interface EventsPage {
  /** The highest number that the reader has seen. 0 means: from the oldest event that is kept. */
  readonly after: number;
  readonly limit: number;
  /** The ids of the directories whose events to return; undefined for all of the account. */
  readonly only?: ReadonlySet<string> | undefined;
}

/**
 * At most `limit` events that come after that number.
 * @throws {BerthError} `events_gone` when some events after that number are no longer kept; {ValidationError} when no event has
 * that number yet.
 */
export async function eventsAfter(
  { db, reads }: Pick<Database, 'db' | 'reads'>,
  account: string,
  { after: seen, limit, only }: EventsPage,
): Promise<NumberedEvent[]> {
  // For a limited key, one event is enough to know whether some are gone. All are numbered, since any may be its own.
  const needed = only ? 1 : limit;
  const isEnough = (read: readonly unknown[]): boolean => !only && read.length >= limit;
  const read = (): Promise<NumberedEvent[]> => after.all(reads, { account, after: seen, limit: needed });
  // Read before the events: the events of all numbers up to this one can be read then.
  const given = await lastNumber(reads, account);
  let events = await read();
  while (!isEnough(events) && (await numberNew(db, account))) events = await read();
  const [first] = events;
  if (seen === 0 || first?.sequence === seen + 1) {
    return only ? eventsIn([...only], seen, limit, { reads, last: await lastNumber(reads, account) }) : events;
  }
  const last = first ? first.sequence - 1 : given;
  if (last > seen) {
    const advice = `list the uploads of your directories, then continue with ?after=${last}`;
    throw new BerthError('events_gone', `Events up to number ${last} are no longer kept: ${advice}`);
  }
  if (last < seen) throw wrongField('after', 'no_event');
  return events;
}

/** How many more events than are wanted one query may count or sort. */
const SURPLUS = 4;

/**
 * The first `limit` events of those directories after a number, up to the number `last`. First finds a range of numbers
 * that has enough of them and not many more, so that no query costs more, however many events the directories have, and
 * however they lie among those of other directories.
 */
async function eventsIn(
  directories: readonly string[],
  seen: number,
  limit: number,
  { reads, last }: { readonly reads: Kysely<Tables>; readonly last: number },
): Promise<NumberedEvent[]> {
  const upTo = (to: number) =>
    reads
      .selectFrom('events')
      .where('directory_id', 'in', directories)
      .where('sequence', 'is not', null)
      .where('sequence', '>', seen)
      .where('sequence', '<=', to);
  /** Stops counting at `most`. */
  const count = (to: number, most: number): Promise<number> =>
    countRows(reads, upTo(to).select('sequence').limit(most));
  let [below, to] = [seen, seen + limit];
  while (to < last && (await count(to, limit)) < limit) [below, to] = [to, seen + (to - seen) * SURPLUS];
  const most = limit * SURPLUS;
  while (to - below > most && (await count(to, most)) === most) {
    const middle = below + Math.floor((to - below) / 2);
    if ((await count(middle, limit)) < limit) below = middle;
    else to = middle;
  }
  return upTo(to)
    .select(['sequence', 'at', 'event', 'directory_id', 'upload_id', 'body'])
    .orderBy('sequence')
    .limit(limit)
    .$narrowType<{ sequence: number }>()
    .execute();
}

/** Numbers up to a batch of events that have no number, then lets other requests go on. @returns whether there were any. */
async function numberNew(db: Kysely<Tables>, account: string): Promise<boolean> {
  if (!(await unnumbered.first(db, { account }))) return false;
  const hadSome = await db.transaction().execute((tx) => numberBatch(tx, account));
  await setImmediate();
  return hadSome;
}

async function numberBatch(tx: Transaction<Tables>, account: string): Promise<boolean> {
  await tx
    .insertInto('event_sequences')
    .columns(['account_id', 'last'])
    .expression((eb) =>
      eb
        .selectFrom('accounts')
        .select(['id', sql.lit(0).as('last')])
        .where('id', '=', account),
    )
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const sequence = await tx
    .selectFrom('event_sequences')
    .select('last')
    .where('account_id', '=', account)
    .forUpdate()
    .executeTakeFirst();
  // The account has gone.
  if (!sequence) return false;
  // A separate statement, so that it sees everything that was committed before the lock was granted.
  const { numAffectedRows = 0n } = await sql`
    update events set sequence = numbered.sequence
    from (
      select id as event_id, ${sequence.last} + row_number() over (order by id) as sequence
      from events where account_id = ${account} and sequence is null order by id limit ${BATCH}
    ) as numbered
    where events.id = numbered.event_id`.execute(tx);
  await tx
    .updateTable('event_sequences')
    .set({ last: sequence.last + Number(numAffectedRows) })
    .where('account_id', '=', account)
    .execute();
  return numAffectedRows > 0n;
}

/** Numbers events that are about to be pruned, so that readers notice that they are gone. */
export async function numberBefore(db: Kysely<Tables>, before: Micros, signal: AbortSignal): Promise<void> {
  const accounts = await db
    .selectFrom('events')
    .innerJoin('accounts', 'accounts.id', 'events.account_id')
    .select('account_id')
    .distinct()
    .where('at', '<', before)
    .where('sequence', 'is', null)
    .execute();
  for (const { account_id } of accounts) while (!signal.aborted && (await numberNew(db, account_id)));
}

async function lastNumber(reads: Kysely<Tables>, account: string): Promise<number> {
  const sequence = await reads
    .selectFrom('event_sequences')
    .select('last')
    .where('account_id', '=', account)
    .executeTakeFirst();
  return sequence?.last ?? 0;
}

/** More events than there can have been since a backup. */
const SKIPPED = 1_000_000_000;

/** After a restore: no number that was given out since the backup is used again, and readers notice the gap. */
export async function skipNumbers(tx: Transaction<Tables>): Promise<void> {
  await tx
    .updateTable('event_sequences')
    .set((eb) => ({ last: eb('last', '+', SKIPPED) }))
    .execute();
}

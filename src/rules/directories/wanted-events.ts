/**
 * The events that a directory or its account subscribes to. `file.uploaded` is always among them. A directory without a
 * setting of its own uses its account's.
 */
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import { verifyActor } from '../accounts/actor.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import { EVENT_KINDS, type EventKind, type Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { type Actor, insertAccountAudit, insertAudit } from '../history/audit.ts';
import { checked, INVALID, orBlank } from '../../foundation/base/validation.ts';
import type { Fields } from './fields.ts';
import { refusingWhenFull } from './storage-full.ts';
import { liveDirectory, lockedDirectory, type Target } from './target.ts';

export const EventsFields = v.pipe(
  v.object({
    events: v.nullable(
      v.pipe(
        v.custom<EventKind[]>(
          (value) => Array.isArray(value) && value.every((kind) => EVENT_KINDS.some((known) => known === kind)),
          ({ input }) => (Array.isArray(input) ? INVALID : orBlank({ input })),
        ),
        v.metadata({ type: 'array', items: { type: 'string', enum: [...EVENT_KINDS] } }),
      ),
    ),
  }),
  v.title('EventsFields'),
);

export interface WantedEvents {
  /** In the order of `EVENT_KINDS`. */
  readonly events: readonly EventKind[];
  /** Whether a directory has no setting of its own, so that its account's counts. */
  readonly inherited: boolean;
}

interface EventsOptions {
  readonly database: Pick<Database, 'db' | 'reads'>;
  readonly clock: Clock;
}

/** @throws {BerthError} `directory_not_found`. */
export async function eventsOf(reads: Kysely<Tables>, target: Pick<Target, 'accountId' | 'id'>): Promise<WantedEvents> {
  const { events } = await liveDirectory(reads, target);
  if (events === null) return { ...(await accountEvents(reads, target.accountId)), inherited: true };
  return shown(events);
}

export async function accountEvents(reads: Kysely<Tables>, accountId: string): Promise<WantedEvents> {
  const account = await reads.selectFrom('accounts').select('events').where('id', '=', accountId).executeTakeFirst();
  return shown(account?.events ?? null);
}

/** @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`. */
export function setEvents({ database, clock }: EventsOptions, target: Target, fields: Fields): Promise<WantedEvents> {
  const after = storedEvents(fields);
  return inTransaction(database, async (tx) => {
    const directory = await lockedDirectory(tx, target);
    await tx.updateTable('directories').set({ events: after }).where('id', '=', target.id).execute();
    const details = { events: { from: kindsIn(directory.events), to: kindsIn(after) } };
    await insertAudit(tx, target.actor, { action: 'update', at: clock.now(), directory, details });
    return eventsOf(tx, target);
  });
}

/** @throws {ValidationError}; {BerthError} `unauthenticated` when the account has gone, `storage_full`. */
export function setAccountEvents(
  { database, clock }: EventsOptions,
  actor: Actor,
  fields: Fields,
): Promise<WantedEvents> {
  const after = storedEvents(fields);
  const id = actor.accountId;
  return inTransaction(database, async (tx) => {
    await verifyActor(tx, actor);
    const before = await tx
      .selectFrom('accounts')
      .select('events')
      .where('id', '=', id)
      .forNoKeyUpdate()
      .executeTakeFirst();
    if (!before) throw new BerthError('unauthenticated', 'Invalid or missing API key');
    await tx.updateTable('accounts').set({ events: after }).where('id', '=', id).execute();
    const details = { events: { from: kindsIn(before.events), to: kindsIn(after) } };
    await insertAccountAudit(tx, actor, { action: 'update-account', at: clock.now(), details });
    return shown(after);
  });
}

function inTransaction<T>({ db }: Pick<Database, 'db'>, work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
  return refusingWhenFull(() => db.transaction().execute(work));
}

/** The column's value: each event once, without `file.uploaded`. */
function storedEvents(fields: Fields): string | null {
  const { events } = checked(EventsFields, fields);
  return events && JSON.stringify(EVENT_KINDS.filter((kind) => kind !== 'file.uploaded' && events.includes(kind)));
}

function kindsIn(stored: string | null): EventKind[] | null {
  return stored === null ? null : (JSON.parse(stored) as EventKind[]);
}

function shown(stored: string | null): WantedEvents {
  return { events: ['file.uploaded', ...(kindsIn(stored) ?? [])], inherited: false };
}

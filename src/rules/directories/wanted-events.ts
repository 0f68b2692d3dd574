/**
 * The events that a directory or its account subscribes to. `file.uploaded` is always among them. A directory without a
 * setting of its own uses its account's.
 */
import type { Kysely } from 'kysely';
import * as v from 'valibot';
import { type DirectoryRow, EVENT_KINDS, type EventKind, type Tables } from '../../foundation/db/schema.ts';
import { lockedOwnAccount } from '../accounts/actor.ts';
import { insertAccountAudit, insertAudit } from '../history/audit.ts';
import { checked, INVALID, orBlank } from '../../foundation/base/validation.ts';
import type { Fields } from './fields.ts';
import { refusingWhenFull } from './storage-full.ts';
import { liveDirectory, lockedDirectory, type Owner, type RuleContext } from './target.ts';

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

/** @throws {BerthError} `directory_not_found`. */
export async function eventsOf(reads: Kysely<Tables>, target: Owner): Promise<WantedEvents> {
  const { accountId, id } = target;
  if (id === undefined) return wanted(await accountEvents(reads, accountId).executeTakeFirst());
  const directory = await liveDirectory(reads, { accountId, id });
  return directory.events === null ? { ...(await eventsOf(reads, { accountId })), inherited: true } : wanted(directory);
}

/** @throws {ValidationError}; {BerthError} `directory_not_found`, `unauthenticated` when the account has gone, `storage_full`. */
export function setEvents({ database, clock }: RuleContext, target: Owner, fields: Fields): Promise<WantedEvents> {
  const events = storedEvents(fields);
  const changed = ({ events: before }: Stored) => {
    const details = { events: { from: kindsIn(before), to: kindsIn(events) } };
    return { at: clock.now(), details };
  };
  return refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      if (target.id === undefined) {
        await lockedOwnAccount(tx, target);
        const before = await accountEvents(tx, target.accountId).executeTakeFirstOrThrow();
        await tx.updateTable('accounts').set({ events }).where('id', '=', target.accountId).execute();
        await insertAccountAudit(tx, target, { action: 'update-account', ...changed(before) });
      } else {
        const directory = await lockedDirectory(tx, target);
        await tx.updateTable('directories').set({ events }).where('id', '=', target.id).execute();
        await insertAudit(tx, target, { action: 'update', directory, ...changed(directory) });
      }
      return eventsOf(tx, target);
    }),
  );
}

type Stored = Pick<DirectoryRow, 'events'>;

function accountEvents(db: Kysely<Tables>, accountId: string) {
  return db.selectFrom('accounts').select('events').where('id', '=', accountId);
}

/** The column's value: each event once, without `file.uploaded`. */
function storedEvents(fields: Fields): string | null {
  const { events } = checked(EventsFields, fields);
  return events && JSON.stringify(EVENT_KINDS.filter((kind) => kind !== 'file.uploaded' && events.includes(kind)));
}

function kindsIn(stored: string | null): EventKind[] | null {
  return stored === null ? null : (JSON.parse(stored) as EventKind[]);
}

function wanted(stored: Stored | undefined): WantedEvents {
  return { events: ['file.uploaded', ...(kindsIn(stored?.events ?? null) ?? [])], inherited: false };
}

/**
 * Erasure: removes personal data from the history early. Transfers, logins, finished deliveries and the networks of users are
 * removed. Rows of the audit and of the feed of events stay, but without names: the audit still shows who made a change, and
 * readers of the feed rely on numbers without a gap.
 */
import type { Kysely, Transaction } from 'kysely';
import type { Store } from '../../foundation/context.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { AccountTarget } from '../accounts/actor.ts';
import { insertAudit } from './audit.ts';
import { removeInBatches } from './batches.ts';

/** Rows that are changed in one transaction. */
const BATCH = 500;

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

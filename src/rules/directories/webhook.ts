/**
 * The webhook of a directory or an account: the URL, and the secret that signs. The account's is for directories that have no URL
 * of their own and have not opted out. A directory with its own URL signs with its own secret.
 *
 * The secret is renewed in two steps, so that receivers accept every webhook meanwhile. After the first step,
 * `webhook-signature` has a signature with each of the two secrets. The second step uses the new secret for
 * `x-service-signature` too, and ends the old one.
 */
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import { because, checked, INVALID, orBlank } from '../../foundation/base/validation.ts';
import {
  type AccountWebhooksTable,
  type DirectoryRow,
  EVENT_KINDS,
  type EventKind,
  type Tables,
} from '../../foundation/db/schema.ts';
import { type AccountTarget, lockedOwnAccount } from '../accounts/actor.ts';
import { insertAccountAudit, insertAudit } from '../history/audit.ts';
import { changeDirectory } from './change.ts';
import { type Fields, webhookUrl } from './fields.ts';
import { generateWebhookSecret } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { liveDirectory, lockedDirectory, type Owner, type RuleContext, type Target } from './target.ts';
import { wrongField } from '../../foundation/base/errors.ts';

export const WebhookFields = v.pipe(
  v.object({
    webhook_url: v.optional(webhookUrl),
    uses_account_webhook: v.optional(
      v.pipe(
        v.boolean(orBlank),
        v.description(
          "Whether the account's webhook is used while `webhook_url` is `null`. `true` for a new directory.",
        ),
      ),
    ),
  }),
  v.title('WebhookFields'),
);

/**
 * Changes the given fields of a directory.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateWebhook(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const { webhook_url, uses_account_webhook: uses } = checked(WebhookFields, fields);
  return changeDirectory(context, target, () => ({
    ...(webhook_url !== undefined && { webhook_url }),
    ...(uses !== undefined && { uses_account_webhook: uses ? (1 as const) : (0 as const) }),
  }));
}

export const AccountWebhookFields = v.pipe(v.object({ url: webhookUrl }), v.title('AccountWebhookFields'));

type Secrets<Secret = string | null> = { readonly secret: Secret; readonly next_secret: string | null };

/** The secret is null until a URL is set or a secret is generated for the first time. */
export type AccountWebhook = Pick<AccountWebhooksTable, 'url'> & Secrets;

export async function accountWebhook(db: Kysely<Tables>, accountId: string): Promise<AccountWebhook> {
  const columns = db.selectFrom('account_webhooks').select(['url', 'secret', 'next_secret']);
  const row = await columns.where('account_id', '=', accountId).executeTakeFirst();
  return row ?? { url: null, secret: null, next_secret: null };
}

/** @throws {ValidationError}; {BerthError} `unauthenticated` when the account has gone, `storage_full`. */
export function setAccountWebhook(
  context: RuleContext,
  target: AccountTarget,
  fields: Fields,
): Promise<AccountWebhook> {
  const { url } = checked(AccountWebhookFields, fields);
  const origin = (text: string | null) => (text === null ? null : (URL.parse(text)?.origin ?? null));
  return changeAccountWebhook(context, target, async (_tx, before) => ({
    after: { ...before, url, secret: before.secret ?? generateWebhookSecret() },
    details: { webhook_url: { from: origin(before.url), to: origin(url) } },
  }));
}

export const SecretFields = v.object({
  activate: v.optional(v.boolean(INVALID), false),
  secret: v.optional(
    v.pipe(
      v.string(INVALID),
      v.minLength(16, because('too_short', 16)),
      v.maxLength(64, because('too_long', 64, 'character')),
      // The same bytes in every encoding that a receiver may use.
      v.regex(/^[!-~]*$/, because('not_printable')),
    ),
  ),
});

export interface RenewedSecret {
  readonly secret: string;
  /** Whether `x-service-signature` is made with it. */
  readonly active: boolean;
}

/**
 * Without `activate`, prepares a new secret, in place of one that was prepared before. With `activate`, uses the prepared
 * secret, or the one that the caller sends.
 * @throws {ValidationError} when a field is wrong, the secret is in use already, or none is prepared; {BerthError}
 * `directory_not_found`, `unauthenticated` when the account has gone, `storage_full`.
 */
export async function renewSecret(
  context: RuleContext,
  target: Owner<RenewedSecret>,
  fields: Fields,
): Promise<RenewedSecret> {
  const asked = checked(SecretFields, fields);
  async function renew(tx: Transaction<Tables>, before: Secrets): Promise<Secrets<string>> {
    const after = renewed(before, asked);
    await target.actor?.response?.keep(tx, latest(after));
    return after;
  }
  if (target.id === undefined) {
    const { secret, next_secret } = await changeAccountWebhook(context, target, async (tx, before) => ({
      after: { ...before, ...(await renew(tx, before)) },
      details: { webhook_secret: { from: null, to: null } },
    }));
    return latest({ secret: secret ?? '', next_secret });
  }
  const after = await changeDirectory(context, target, async (tx, _now, before) => {
    const { secret, next_secret } = await renew(tx, secretsOf(before));
    return { webhook_secret: secret, next_webhook_secret: next_secret };
  });
  return latest(secretsOf(after));
}

function secretsOf({ webhook_secret: secret, next_webhook_secret: next_secret }: DirectoryRow): Secrets<string> {
  return { secret, next_secret };
}

function renewed(
  { secret: inUse, next_secret: prepared }: Secrets,
  { activate, secret: own }: v.InferOutput<typeof SecretFields>,
): Secrets<string> {
  const secret = own ?? (activate ? prepared : generateWebhookSecret());
  if (secret === null) throw wrongField('activate', 'nothing_prepared');
  if (!activate && secret === inUse) throw wrongField('secret', 'in_use');
  // The first secret is used at once: no receiver has an older one.
  return activate || inUse === null ? { secret, next_secret: null } : { secret: inUse, next_secret: secret };
}

function latest({ secret, next_secret }: Secrets<string>): RenewedSecret {
  return { secret: next_secret ?? secret, active: next_secret === null };
}

/**
 * Records in the audit that the secret was shown.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function noteSecretShown({ database, clock }: RuleContext, target: Owner): Promise<void> {
  const change = { action: 'show-secret', at: clock.now() } as const;
  await refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      if (target.id === undefined) return insertAccountAudit(tx, target, change);
      await insertAudit(tx, target, { ...change, directory: await lockedDirectory(tx, target) });
    }),
  );
}

interface Change {
  readonly after: AccountWebhook;
  readonly details: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
}

function changeAccountWebhook(
  { database, clock }: RuleContext,
  target: AccountTarget<never>,
  change: (tx: Transaction<Tables>, before: AccountWebhook) => Promise<Change>,
): Promise<AccountWebhook> {
  return refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      await lockedOwnAccount(tx, target);
      const { after, details } = await change(tx, await accountWebhook(tx, target.accountId));
      const values = { ...after, secret: after.secret ?? '' };
      await tx
        .insertInto('account_webhooks')
        .values({ account_id: target.accountId, ...values })
        .onConflict((conflict) => conflict.column('account_id').doUpdateSet(values))
        .execute();
      await insertAccountAudit(tx, target, { action: 'update-account', at: clock.now(), details });
      return after;
    }),
  );
}

// The events that a directory or its account subscribes to. `file.uploaded` is always among them. A directory without a
// setting of its own uses its account's.

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

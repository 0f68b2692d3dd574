/**
 * An account's webhook: the URL for directories that have none of their own, and the secret that signs what goes there. A
 * directory with its own URL signs with its own secret.
 */
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import { verifyActor } from '../accounts/actor.ts';
import { lockedAccount } from '../accounts/accounts.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { AccountWebhooksTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError, ValidationError } from '../../foundation/base/errors.ts';
import { type Actor, insertAccountAudit } from '../history/audit.ts';
import { checked } from '../../foundation/base/validation.ts';
import { type Fields, webhookUrl } from './fields.ts';
import { generateWebhookSecret } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { type RenewedSecret, SecretFields } from './webhook.ts';

export const AccountWebhookFields = v.object({ url: webhookUrl });

export type AccountWebhook = Pick<AccountWebhooksTable, 'url' | 'next_secret'> & {
  /** Null until a URL is set or a secret is generated for the first time. */
  readonly secret: string | null;
};

export interface AccountWebhookOptions {
  readonly database: Pick<Database, 'db' | 'reads'>;
  readonly clock: Clock;
}

const NONE: AccountWebhook = { url: null, secret: null, next_secret: null };

export async function accountWebhook(reads: Kysely<Tables>, accountId: string): Promise<AccountWebhook> {
  return (await rowOf(reads, accountId)) ?? NONE;
}

/** @throws {ValidationError}; {BerthError} `unauthenticated` when the account has gone, `storage_full`. */
export function setAccountWebhook(
  options: AccountWebhookOptions,
  actor: Actor,
  fields: Fields,
): Promise<AccountWebhook> {
  const { url } = checked(AccountWebhookFields, fields);
  return changed(options, actor, async (tx, before) => {
    const after = { ...before, url, secret: before.secret ?? generateWebhookSecret() };
    await put(tx, actor.accountId, after);
    const origin = (text: string | null) => (text === null ? null : (URL.parse(text)?.origin ?? null));
    const details = { webhook_url: { from: origin(before.url), to: origin(url) } };
    return { after, details };
  });
}

/**
 * Renews the secret, in the two steps of `renewWebhookSecret`.
 * @throws {ValidationError}; {BerthError} `unauthenticated` when the account has gone, `storage_full`.
 */
export async function renewAccountSecret(
  options: AccountWebhookOptions,
  actor: Actor<RenewedSecret>,
  fields: Fields,
): Promise<RenewedSecret> {
  const { activate, secret: own } = checked(SecretFields, fields);
  const { secret, next_secret } = await changed(options, actor, async (tx, before) => {
    const made = activate ? (own ?? before.next_secret) : (own ?? generateWebhookSecret());
    if (made === null) throw new ValidationError({ activate: ['has nothing to activate: ask for a new secret first'] });
    if (!activate && made === before.secret) throw new ValidationError({ secret: ['is in use already'] });
    // The first secret is used at once: no receiver has an older one.
    const isActive = activate || before.secret === null;
    const after = isActive
      ? { ...before, secret: made, next_secret: null }
      : { ...before, secret: before.secret, next_secret: made };
    await put(tx, actor.accountId, after);
    await actor.response?.keep(tx, { secret: made, active: isActive });
    return { after, details: { webhook_secret: { from: null, to: null } } };
  });
  return next_secret === null ? { secret: secret ?? '', active: true } : { secret: next_secret, active: false };
}

/**
 * Records in the audit that the secret was shown.
 * @throws {BerthError} `storage_full`.
 */
export async function noteAccountSecretShown({ database, clock }: AccountWebhookOptions, actor: Actor): Promise<void> {
  await refusingWhenFull(() =>
    database.db
      .transaction()
      .execute((tx) => insertAccountAudit(tx, actor, { action: 'show-secret', at: clock.now() })),
  );
}

interface Change {
  readonly after: AccountWebhook;
  readonly details: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
}

function changed(
  { database, clock }: AccountWebhookOptions,
  actor: Actor<never>,
  change: (tx: Transaction<Tables>, before: AccountWebhook) => Promise<Change>,
): Promise<AccountWebhook> {
  return refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      await verifyActor(tx, actor);
      if (!(await lockedAccount(tx, actor.accountId)))
        throw new BerthError('unauthenticated', 'Invalid or missing API key');
      const { after, details } = await change(tx, (await rowOf(tx, actor.accountId)) ?? NONE);
      await insertAccountAudit(tx, actor, { action: 'update-account', at: clock.now(), details });
      return after;
    }),
  );
}

function rowOf(db: Kysely<Tables>, accountId: string): Promise<AccountWebhook | undefined> {
  return db
    .selectFrom('account_webhooks')
    .select(['url', 'secret', 'next_secret'])
    .where('account_id', '=', accountId)
    .executeTakeFirst();
}

async function put(tx: Transaction<Tables>, account_id: string, { url, secret, next_secret }: AccountWebhook) {
  const values = { url, secret: secret ?? '', next_secret };
  await tx
    .insertInto('account_webhooks')
    .values({ account_id, ...values })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(values))
    .execute();
}

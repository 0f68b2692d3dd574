/**
 * A directory's webhook: the URL (its own, its account's, or none) and the secret that signs.
 *
 * The secret is renewed in two steps, so that receivers accept every webhook meanwhile. After the first step,
 * `webhook-signature` has a signature with each of the two secrets. The second step uses the new secret for
 * `x-service-signature` too, and ends the old one.
 */
import * as v from 'valibot';
import { ValidationError } from '../../foundation/base/errors.ts';
import { checked, INVALID, orBlank } from '../../foundation/base/validation.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { insertAudit } from '../history/audit.ts';
import { changeDirectory } from './change.ts';
import { type Fields, webhookUrl } from './fields.ts';
import { generateWebhookSecret } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { lockedDirectory, type RuleContext, type Target } from './target.ts';

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
 * Changes the given fields.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateWebhook(context: RuleContext, target: Target, fields: Fields): Promise<DirectoryRow> {
  const { webhook_url, uses_account_webhook: uses } = checked(WebhookFields, fields);
  return changeDirectory(context, target, () => ({
    ...(webhook_url !== undefined && { webhook_url }),
    ...(uses !== undefined && { uses_account_webhook: uses ? (1 as const) : (0 as const) }),
  }));
}

export const SecretFields = v.object({
  activate: v.optional(v.boolean(INVALID), false),
  secret: v.optional(
    v.pipe(
      v.string(INVALID),
      v.minLength(16, 'should be at least 16 character(s)'),
      v.maxLength(64, 'should be at most 64 character(s)'),
      // The same bytes in every encoding that a receiver may use.
      v.regex(/^[!-~]*$/, 'must be printable ASCII without blanks'),
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
 * `directory_not_found`, `storage_full`.
 */
export async function renewWebhookSecret(
  context: RuleContext,
  target: Target<RenewedSecret>,
  fields: Fields,
): Promise<RenewedSecret> {
  const { activate, secret: own } = checked(SecretFields, fields);
  const made = own ?? generateWebhookSecret();
  const { webhook_secret: current, next_webhook_secret: next } = await changeDirectory(
    context,
    target,
    async (tx, _now, { webhook_secret: inUse, next_webhook_secret: prepared }) => {
      const secret = activate ? (own ?? prepared) : made;
      if (secret === null)
        throw new ValidationError({ activate: ['has nothing to activate: ask for a new secret first'] });
      if (!activate && secret === inUse) throw new ValidationError({ secret: ['is in use already'] });
      await target.actor?.response?.keep(tx, { secret, active: activate });
      return activate ? { webhook_secret: secret, next_webhook_secret: null } : { next_webhook_secret: secret };
    },
  );
  return { secret: next ?? current, active: activate };
}

/**
 * Records in the audit that the secret was shown.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function noteSecretShown({ database, clock }: RuleContext, target: Target): Promise<void> {
  await refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      const directory = await lockedDirectory(tx, target);
      await insertAudit(tx, target.actor, { action: 'show-secret', at: clock.now(), directory });
    }),
  );
}

/**
 * A new webhook secret in two steps, so that no webhook is refused meanwhile: from the first on, `webhook-signature` is
 * made with both; the second makes the new one that of `x-service-signature`, and ends the old one.
 */
import * as v from 'valibot';
import { verifyActor } from '../accounts/actor.ts';
import { ValidationError } from '../base/errors.ts';
import { insertAudit } from '../history/audit.ts';
import type { StoredResponse } from '../history/stored-responses.ts';
import { type ChangeOptions, changeDirectory } from './change.ts';
import { checked, INVALID } from '../base/validation.ts';
import type { Fields } from './fields.ts';
import { generateWebhookSecret } from './identity.ts';
import { refusingWhenFull } from './storage-full.ts';
import { liveDirectory, type Target } from './target.ts';

export const SecretFields = v.object({
  activate: v.optional(v.boolean(INVALID), false),
  secret: v.optional(
    v.pipe(
      v.string(INVALID),
      v.minLength(16, 'should be at least 16 character(s)'),
      v.maxLength(64, 'should be at most 64 character(s)'),
      // These characters are the same bytes in every language.
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
 * Without `activate`, what takes the place of one that was not activated. With it, the one of the first step, or the
 * caller's own at once.
 * @throws {ValidationError} when a field is wrong, the secret is in use already, or there is none to activate; {BerthError}
 * `directory_not_found`, `storage_full`.
 */
export async function renewWebhookSecret(
  options: ChangeOptions,
  target: Target,
  fields: Fields,
  answer?: StoredResponse<RenewedSecret>,
): Promise<RenewedSecret> {
  const { activate, secret: own } = checked(SecretFields, fields);
  const made = own ?? generateWebhookSecret();
  const { webhook_secret: current, next_webhook_secret: next } = await changeDirectory(
    options,
    target,
    async (tx, _now, { webhook_secret: inUse, next_webhook_secret: prepared }) => {
      const secret = activate ? (own ?? prepared) : made;
      if (secret === null)
        throw new ValidationError({ activate: ['has nothing to activate: ask for a new secret first'] });
      if (!activate && secret === inUse) throw new ValidationError({ secret: ['is in use already'] });
      await answer?.keep(tx, { secret, active: activate });
      return activate ? { webhook_secret: secret, next_webhook_secret: null } : { next_webhook_secret: secret };
    },
  );
  return { secret: next ?? current, active: activate };
}

/**
 * Notes in the audit that somebody asked to see the secret.
 * @throws {BerthError} `directory_not_found`, `storage_full`.
 */
export async function noteSecretShown({ database, clock }: ChangeOptions, target: Target): Promise<void> {
  await refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      await verifyActor(tx, target.actor);
      const directory = await liveDirectory(tx, target);
      if (target.actor) await insertAudit(tx, target.actor, { action: 'show-secret', at: clock.now(), directory });
    }),
  );
}

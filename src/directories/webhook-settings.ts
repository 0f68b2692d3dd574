/** Where a directory's webhooks go: to its own URL, to its account's, or nowhere. */
import * as v from 'valibot';
import type { DirectoriesTable } from '../db/schema.ts';
import { checked, orBlank } from '../base/validation.ts';
import { type ChangeOptions, changeDirectory } from './change.ts';
import { type Fields, webhookUrl } from './fields.ts';
import type { Target } from './target.ts';

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
 * Fields that are left out stay.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateWebhook(options: ChangeOptions, target: Target, fields: Fields): Promise<DirectoriesTable> {
  const { webhook_url, uses_account_webhook: uses } = checked(WebhookFields, fields);
  return changeDirectory(options, target, () => ({
    ...(webhook_url !== undefined && { webhook_url }),
    ...(uses !== undefined && { uses_account_webhook: uses ? (1 as const) : (0 as const) }),
  }));
}

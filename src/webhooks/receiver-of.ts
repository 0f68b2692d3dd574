/** Where a directory's webhooks go, and what signs them: its own URL and secret, or else its account's. */
import type { Kysely } from 'kysely';
import type { Clock } from '../clock.ts';
import { compiled } from '../db/compiled.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';

/** What asking for a webhook needs, be it a replay, an announcement or a test. */
export interface WebhookRules {
  readonly database: Database;
  readonly clock: Clock;
  /** Tells the service that there is something to send; without it, a running one looks within ten seconds. */
  wake(): void;
}

export interface WebhookReceiver extends Pick<DirectoriesTable, 'webhook_secret' | 'next_webhook_secret'> {
  readonly url: string;
}

const ofAccount = compiled<{ account: string }>()((db, p) =>
  db
    .selectFrom('account_webhooks')
    .select(['url', 'secret as webhook_secret', 'next_secret as next_webhook_secret'])
    .where('account_id', '=', p('account')),
);

/** The URL alone; null when there is nobody to send a webhook to. */
export async function receiverUrl(
  db: Kysely<Tables>,
  { account_id, webhook_url }: Pick<DirectoriesTable, 'account_id' | 'webhook_url'>,
): Promise<string | null> {
  return webhook_url ?? (await ofAccount.first(db, { account: account_id }))?.url ?? null;
}

/** @throws {ValidationError} when there is nobody to send a webhook to. */
export async function receiverOf(
  db: Kysely<Tables>,
  directory: Pick<DirectoriesTable, 'account_id' | 'webhook_url' | 'webhook_secret' | 'next_webhook_secret'>,
): Promise<WebhookReceiver> {
  const { account_id, webhook_url, webhook_secret, next_webhook_secret } = directory;
  if (webhook_url !== null) return { url: webhook_url, webhook_secret, next_webhook_secret };
  const found = await ofAccount.first(db, { account: account_id });
  if (found && found.url !== null) return { ...found, url: found.url };
  throw new ValidationError({ webhook_url: ['is not set: give the directory or the account a webhook URL first'] });
}

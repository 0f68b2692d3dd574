/**
 * Finds the receiver of a directory's webhooks, and the secrets that sign them: its own, or else its account's unless
 * it opted out.
 */
import type { Store } from '../../foundation/context.ts';
import type { Kysely } from 'kysely';
import { compiled } from '../../foundation/db/compiled.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { wrongField } from '../../foundation/base/errors.ts';

/** The dependencies of a request for a webhook: a replay, an announcement or a test. */
export interface WebhookRules extends Store {
  /**
   * Notifies the service that there is something to send. Without this call, a running service finds it within ten
   * seconds.
   */
  wake(): void;
}

type Secrets = Pick<DirectoryRow, 'webhook_secret' | 'next_webhook_secret'>;

export interface WebhookReceiver extends Secrets {
  readonly url: string;
}

const ofAccount = compiled<{ account: string }>()((db, p) =>
  db
    .selectFrom('account_webhooks')
    .select(['url', 'secret as webhook_secret', 'next_secret as next_webhook_secret'])
    .where('account_id', '=', p('account')),
);

/** The columns of a directory that decide where its webhooks go. */
export type Destined = Pick<DirectoryRow, 'account_id' | 'webhook_url' | 'uses_account_webhook'>;

/** The account's receiver, unless it has no URL or this directory has opted out of it. */
async function accountReceiver(
  db: Kysely<Tables>,
  { account_id, uses_account_webhook }: Destined,
): Promise<WebhookReceiver | undefined> {
  if (!uses_account_webhook) return undefined;
  const found = await ofAccount.first(db, { account: account_id });
  return found && found.url !== null ? { ...found, url: found.url } : undefined;
}

/** The receiver's URL; null when there is no receiver. */
export async function receiverUrl(db: Kysely<Tables>, directory: Destined): Promise<string | null> {
  return directory.webhook_url ?? (await accountReceiver(db, directory))?.url ?? null;
}

/** The receiver; undefined when there is none. */
export async function receiverIfAny(
  db: Kysely<Tables>,
  directory: Destined & Secrets,
): Promise<WebhookReceiver | undefined> {
  const { webhook_url, webhook_secret, next_webhook_secret } = directory;
  if (webhook_url !== null) return { url: webhook_url, webhook_secret, next_webhook_secret };
  return accountReceiver(db, directory);
}

/** @throws {ValidationError} when there is no receiver. */
export async function receiverOf(db: Kysely<Tables>, directory: Destined & Secrets): Promise<WebhookReceiver> {
  const found = await receiverIfAny(db, directory);
  if (found) return found;
  throw wrongField('webhook_url', directory.uses_account_webhook ? 'no_webhook' : 'no_own_webhook');
}

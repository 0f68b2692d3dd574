/** What asking for a webhook begins with, be it a replay, an announcement or a test: whose it is, and where it would go. */
import type { Kysely } from 'kysely';
import type { Clock } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import { BerthError, ValidationError } from '../errors.ts';
import type { Asker } from '../history/audit.ts';

export interface WebhookRules {
  readonly database: Database;
  readonly clock: Clock;
  /** Tells the service that there is something to send; without it, a running one looks within ten seconds. */
  wake(): void;
}

/** The directory, and the request behind it, for the audit. */
export interface Target {
  readonly accountId: string;
  readonly id: string;
  readonly asker?: Asker | undefined;
}

/** @throws {BerthError} `directory_not_found`. */
export async function liveDirectory(tx: Kysely<Tables>, { accountId, id }: Target): Promise<DirectoriesTable> {
  const directory = await tx
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}

/** @throws {ValidationError} when there is nobody to send a webhook to. */
export function receiverOf({ webhook_url: url }: Pick<DirectoriesTable, 'webhook_url'>): string {
  if (url === null) throw new ValidationError({ webhook_url: ["can't be blank"] });
  return url;
}

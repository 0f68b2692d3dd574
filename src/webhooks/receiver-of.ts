/** What asking for a webhook needs, be it a replay, an announcement or a test: a database, and somewhere to send it. */
import type { Clock } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import { ValidationError } from '../errors.ts';

export interface WebhookRules {
  readonly database: Database;
  readonly clock: Clock;
  /** Tells the service that there is something to send; without it, a running one looks within ten seconds. */
  wake(): void;
}

/** @throws {ValidationError} when there is nobody to send a webhook to. */
export function receiverOf({ webhook_url: url }: Pick<DirectoriesTable, 'webhook_url'>): string {
  if (url === null) throw new ValidationError({ webhook_url: ["can't be blank"] });
  return url;
}

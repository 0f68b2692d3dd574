/**
 * Sends one webhook marked as a test, and returns the receiver's answer. It is not retried. The test and its answer are stored
 * as a delivery of the event `test`, for the dashboard.
 */
import type { Kysely } from 'kysely';
import { wrongField } from '../../foundation/base/errors.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DeliveryRow, Tables } from '../../foundation/db/schema.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { payload, unsent } from './outbox.ts';
import { lockedDirectory, type Target } from '../../rules/directories/target.ts';
import { receiverOf, type WebhookRules } from './receiver-of.ts';
import type { Answer, Send, SentHeaders } from './send.ts';

export interface TrialRules extends WebhookRules {
  readonly send: Send;
}

export interface Trial {
  /** The id of the delivery. */
  readonly id: string;
  /** Without headers when no request was made. */
  readonly request: { readonly url: string; readonly headers: SentHeaders; readonly body: Buffer };
  readonly answer: Answer;
}

const GUARDED = 'webhooks go to public addresses only, unless the operator of this berth allows others';

/** The body's fields for a file that does not exist. */
const FILE = { filename: 'test.txt', sizeBytes: 0 };

/** @throws {BerthError} `directory_not_found`; {ValidationError} when the directory has no webhook URL. */
export async function tryWebhook({ database, clock, send }: TrialRules, target: Target): Promise<Trial> {
  const directory = await database.db.transaction().execute(async (tx) => {
    const found = await lockedDirectory(tx, target);
    const receiver = await receiverOf(tx, found);
    await insertAudit(tx, target, { action: 'test', at: clock.now(), directory: found });
    return { ...found, ...receiver };
  });
  const now = clock.now();
  const { url, webhook_secret, next_webhook_secret } = directory;
  const body = payload({ directory, ...FILE, uploadedAt: now }, { test: true });
  const test = {
    directory_id: directory.id,
    account_id: directory.account_id,
    upload_id: null,
    event: 'test',
  } as const;
  const delivery = unsent({ ...test, body }, url, now);
  let headers: SentHeaders = [];
  const outgoing = { ...delivery, webhook_secret, next_webhook_secret };
  const sent = await send(outgoing, now, new AbortController().signal, (given) => (headers = given));
  const answer = { ...sent, error: sent.isForbidden ? `${sent.error}: ${GUARDED}` : sent.error };
  await store(database, delivery, answer, clock.now());
  return { id: delivery.id, request: { url, headers, body }, answer };
}

/** Stores the test with its answer, unless the directory was deleted meanwhile. */
function store(
  { db }: WebhookRules['database'],
  delivery: DeliveryRow,
  { ok, status, error, latency, response }: Answer,
  now: Micros,
): Promise<void> {
  return db.transaction().execute(async (tx) => {
    const directory = await tx
      .selectFrom('directories')
      .select('id')
      .where('id', '=', delivery.directory_id)
      .where('deleted_at', 'is', null)
      .forShare()
      .executeTakeFirst();
    if (!directory) return;
    const result = { state: ok ? 'delivered' : 'failed', attempts: 1, due_at: null, finished_at: now } as const;
    await tx
      .insertInto('deliveries')
      .values({ ...delivery, ...result })
      .execute();
    const times = { started_at: delivery.inserted_at, finished_at: now, latency_us: latency };
    await tx
      .insertInto('attempts')
      .values({ delivery_id: delivery.id, number: 1, ...times, status, error, response })
      .execute();
  });
}

/**
 * The id of the newest directory whose webhooks go to the account's URL.
 * @throws {ValidationError} when there is none, or no URL.
 */
export async function directoryForTest(reads: Kysely<Tables>, accountId: string): Promise<string> {
  const row = await reads
    .selectFrom('directories as d')
    .innerJoin('account_webhooks as w', 'w.account_id', 'd.account_id')
    .select('d.id')
    .where('d.account_id', '=', accountId)
    .where('d.deleted_at', 'is', null)
    .where('d.webhook_url', 'is', null)
    .where('d.uses_account_webhook', '=', 1)
    .where('w.url', 'is not', null)
    .orderBy('d.inserted_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!row) throw wrongField('webhook_url', 'no_directory');
  return row.id;
}

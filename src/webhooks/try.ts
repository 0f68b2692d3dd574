/**
 * Sends one webhook marked as a test, and returns the receiver's answer. It is not retried, and nothing is stored
 * except the audit entry.
 */
import { randomUUID } from 'node:crypto';
import { verifyActor } from '../accounts/actor.ts';
import { insertAudit } from '../history/audit.ts';
import { payload } from './outbox.ts';
import { liveDirectory, type Target } from '../directories/target.ts';
import { receiverOf, type WebhookRules } from './receiver-of.ts';
import type { Answer, Send, SentHeaders } from './send.ts';

export interface TrialRules extends WebhookRules {
  readonly send: Send;
}

export interface Trial {
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
    await verifyActor(tx, target.actor);
    const found = await liveDirectory(tx, target);
    const receiver = await receiverOf(tx, found);
    if (target.actor) await insertAudit(tx, target.actor, { action: 'test', at: clock.now(), directory: found });
    return { ...found, ...receiver };
  });
  const now = clock.now();
  const { url, webhook_secret, next_webhook_secret } = directory;
  const body = payload({ directory, ...FILE, uploadedAt: now }, { test: true });
  const outgoing = { id: randomUUID(), upload_id: null, url, body, webhook_secret, next_webhook_secret };
  let headers: SentHeaders = [];
  const answer = await send(outgoing, now, new AbortController().signal, (sent) => (headers = sent));
  const error = answer.isForbidden ? `${answer.error}: ${GUARDED}` : answer.error;
  return { request: { url, headers, body }, answer: { ...answer, error } };
}

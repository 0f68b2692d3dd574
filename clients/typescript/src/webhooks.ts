/** Verification of berth's webhooks. Both ways need the body's bytes as they came: verify first, parse afterwards. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { components } from './api.ts';

type Schemas = components['schemas'];

/** Told apart by `event`. Later versions of berth have more: ignore those that you do not know. */
export type WebhookEvent =
  | Schemas['FileUploaded']
  | Schemas['FileDeleted']
  | Schemas['FileRenamed']
  | Schemas['FileDownloaded']
  | Schemas['FileRejected']
  | Schemas['UploadFailed']
  | Schemas['LoginRefused'];

/** Those of node:http, of fetch, or a plain object. */
type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** One for all, or what finds the one of a directory; undefined when there is none. */
export type WebhookSecret = string | ((directoryId: string) => string | undefined);

/** The request is not from berth, or it is too old. Its message says which check failed. */
export class WebhookError extends Error {
  override name = 'WebhookError';
}

/**
 * The event of a webhook whose `webhook-signature` is right (Standard Webhooks). `webhook-id` is signed, too, and the
 * same at each attempt: drop what you have had.
 * @param secret of the directory's webhook, or of the account's: see `docs/webhooks.md`, "Many directories".
 * @param tolerance how far `webhook-timestamp` may be from this machine's clock, in s.
 * @throws {WebhookError} answer 401.
 */
export function verifyWebhook(
  rawBody: Uint8Array,
  headers: WebhookHeaders,
  secret: WebhookSecret,
  tolerance = 300,
): WebhookEvent {
  const id = required(headers, 'webhook-id');
  const timestamp = required(headers, 'webhook-timestamp');
  const signatures = required(headers, 'webhook-signature');
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance)
    throw new WebhookError('webhook-timestamp is too far from the clock');
  const signed = createHmac('sha256', signingKey(secretFor(rawBody, secret)))
    .update(`${id}.${timestamp}.`)
    .update(rawBody);
  const expected = `v1,${signed.digest('base64')}`;
  // There are two while a secret is being replaced.
  if (!signatures.split(' ').some((signature) => isSame(signature, expected)))
    throw new WebhookError('no signature fits the secret');
  return JSON.parse(new TextDecoder().decode(rawBody)) as WebhookEvent;
}

/** What the body says counts only when the signature fits that directory's secret. */
function secretFor(rawBody: Uint8Array, secret: WebhookSecret): string {
  if (typeof secret === 'string') return secret;
  const found = secret(directoryIn(rawBody));
  if (found === undefined) throw new WebhookError('there is no secret for this directory');
  return found;
}

function directoryIn(rawBody: Uint8Array): string {
  try {
    const body = JSON.parse(new TextDecoder().decode(rawBody)) as { directory_id?: unknown } | null;
    return typeof body?.directory_id === 'string' ? body.directory_id : '';
  } catch {
    return '';
  }
}

/** Whether `x-service-signature` is right. It covers the body alone, so an old request passes as well as a new one. */
export function verify(rawBody: Uint8Array, header: string | undefined, secret: string): boolean {
  const expected = 'sha256=' + createHmac('sha256', secret).update(rawBody).digest('hex');
  return isSame(header ?? '', expected);
}

/** Base64 as Standard Webhooks has it, or berth's older secrets in the URL alphabet. Any other text is the key itself. */
const BASE64 = /^(?:[A-Za-z\d+/]+={0,2}|[\w-]{32})$/;

function signingKey(secret: string): Buffer {
  if (secret === '') throw new TypeError('the secret is empty');
  const text = secret.replace(/^whsec_/, '');
  const isBase64 = BASE64.test(text) && text.replace(/=+$/, '').length % 4 !== 1;
  return isBase64 ? Buffer.from(text, 'base64') : Buffer.from(secret);
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function required(headers: WebhookHeaders, name: string): string {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const [, found] = entries.find(([key]) => key.toLowerCase() === name) ?? [];
  const value = typeof found === 'string' ? found : found?.[0];
  if (!value) throw new WebhookError(`${name} is missing`);
  return value;
}

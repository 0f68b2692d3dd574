/** A typed client of berth's API, and verification of its webhooks. */
import createFetchClient, { type Client } from 'openapi-fetch';
import type { paths } from './api.ts';

export type { components, paths } from './api.ts';
export { verify, verifyWebhook, WebhookError, type WebhookEvent, type WebhookSecret } from './webhooks.ts';

export interface BerthOptions {
  /** Where berth serves, such as `https://sftp.example.com:8443`. */
  readonly url: string;
  readonly key: string;
}

export type BerthClient = Client<paths>;

/** Its methods (`GET`, `POST`, …) take a path of the API, and give back `data` or `error`, and the `response`. */
export function createBerthClient({ url, key }: BerthOptions): BerthClient {
  return createFetchClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${key}` } });
}

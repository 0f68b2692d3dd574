/** Makes links, and uses them without any other credentials. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { TestBerth, TestDirectory } from './berth.ts';

export interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Buffer | string;
}

export const soon = (): string => new Date(Date.now() + 3_600_000).toISOString();

export async function linkTo(
  berth: TestBerth,
  { id }: TestDirectory,
  fields: Record<string, unknown>,
): Promise<string> {
  const { status, json, headers } = await berth.send('POST', `/directories/${id}/links`, {
    json: { expires_at: soon(), ...fields },
  });
  assert.equal(status, 201, JSON.stringify(json));
  assert.equal(headers['cache-control'], 'no-store');
  const { url } = (json as { data: { url: string } }).data;
  return url.replace(/^https:\/\/[^/]+/, '');
}

export const uploadLink = (
  berth: TestBerth,
  directory: TestDirectory,
  path: string,
  more: object = {},
): Promise<string> => linkTo(berth, directory, { for: 'upload', path, max_bytes: 1_000_000, ...more });

export const downloadLink = (
  berth: TestBerth,
  directory: TestDirectory,
  path: string,
  more: object = {},
): Promise<string> => linkTo(berth, directory, { for: 'download', path, ...more });

/** As somebody without a key. */
export function open(berth: TestBerth, path: string, { method = 'GET', headers = {} }: Sent = {}) {
  const ca = readFileSync(berth.config.tls.cert);
  return request({ host: '127.0.0.1', port: berth.service().port, ca, method, path, headers, agent: false });
}

export async function ask(berth: TestBerth, path: string, { body, ...sent }: Sent = {}) {
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  const outgoing = open(berth, path, { ...sent, headers: { ...length, ...sent.headers } });
  outgoing.end(body);
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  const bytes = await buffer(incoming);
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, bytes, text: bytes.toString() };
}

export const put = (berth: TestBerth, path: string, body: Buffer | string) => ask(berth, path, { method: 'PUT', body });

/** As a browser sends a form with one file. */
export function form(content: Buffer | string, filename = 'my file.pdf', boundary = '----WebKitFormBoundaryabc'): Sent {
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\nContent-Type: application/pdf\r\n\r\n`;
  const body = Buffer.concat([Buffer.from(head), Buffer.from(content), Buffer.from(`\r\n--${boundary}--\r\n`)]);
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}`, accept: 'text/html,*/*;q=0.8' };
  return { method: 'POST', headers, body };
}

export const inTransit = (berth: TestBerth): string[] => readdirSync(join(berth.config.jailDir, '.berth', 'transit'));

/**
 * Sends requests to the service on this machine. Its certificate may be for any name, so it is compared to the configured file. That
 * also exposes a service that still uses an older certificate.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request as plainRequest } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import type { LookupFunction } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Config } from '../../foundation/base/config.ts';

/** How long an answer may take. */
const TIMEOUT_MS = 10_000;

export interface ApiAnswer {
  readonly status: number;
  readonly json: unknown;
}

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly key?: string;
  readonly json?: unknown;
}

/** @throws {Error} when nothing answers, or another program does. */
export async function requestApi({ api, tls }: Config, { method, path, key, json }: ApiRequest): Promise<ApiAnswer> {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const headers = {
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
    ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    ...(tls.mode === 'proxy' && { 'x-forwarded-proto': 'https' }),
  };
  const host = { '0.0.0.0': '127.0.0.1', '::': 'localhost' }[api.host] ?? api.host;
  const target = {
    host,
    ...(host === 'localhost' && { lookup: loopback }),
    port: api.port,
    method,
    path,
    headers,
    agent: false,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  };
  const outgoing = tls.mode === 'proxy' ? plainRequest(target) : request({ ...target, rejectUnauthorized: false });
  if (tls.mode === 'on') {
    const expected = [tls.cert, tls.lastGood].filter(existsSync).map(fingerprint);
    outgoing.once('socket', (socket: TLSSocket) =>
      socket.once('secureConnect', () => {
        if (expected.includes(socket.getPeerCertificate().fingerprint256)) outgoing.end(body);
        else outgoing.destroy(new Error(`port ${api.port} does not answer with the certificate ${tls.cert}`));
      }),
    );
  } else outgoing.end(body);
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  const answer = await text(incoming);
  const isJson = incoming.headers['content-type']?.startsWith('application/json') && answer !== '';
  return { status: incoming.statusCode ?? 0, json: isJson ? JSON.parse(answer) : undefined };
}

/** Both addresses, which Node tries in turn. A bare Debian lacks /etc/hosts, and with it the name. */
const loopback: LookupFunction = (_, { all }, callback) => {
  const addresses = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  return all ? callback(null, addresses) : callback(null, '127.0.0.1', 4);
};

/** Undefined when the file holds no certificate. */
function fingerprint(file: string): string | undefined {
  try {
    return new X509Certificate(readFileSync(file)).fingerprint256;
  } catch {
    return undefined;
  }
}

/**
 * Refuses requests that two servers could understand differently, before anything else is done with them. Request smuggling
 * uses such a difference between a proxy and berth (RFC 9112, section 11.2). Node's parser refuses wrong framing itself; this
 * file checks what the parser accepts.
 */
import type { IncomingMessage } from 'node:http';

const MAX_HEADERS = 100;
/** If one of these headers is repeated, Node drops the second or joins both; other servers take the last, or both. */
const SINGLE = new Set([
  'host',
  'authorization',
  'content-type',
  'content-length',
  'transfer-encoding',
  'idempotency-key',
]);

export interface Misshape {
  readonly status: 400 | 417 | 431 | 505;
  readonly message: string;
}

const BAD: Misshape = { status: 400, message: 'Bad request' };
const UNEXPECTED: Misshape = { status: 417, message: 'Expectation failed' };
const VERSION: Misshape = { status: 505, message: 'HTTP version not supported' };
const TOO_MANY: Misshape = { status: 431, message: 'Request headers are too large' };

/** What is wrong with the request; undefined when nothing is. */
export function misshape({ rawHeaders, headers, url = '', httpVersion }: IncomingMessage): Misshape | undefined {
  // Node's parser accepts these versions in a request line. A line without a version is 0.9 too.
  if (httpVersion === '0.9') return BAD;
  if (httpVersion === '2.0') return VERSION;
  if (rawHeaders.length > 2 * MAX_HEADERS) return TOO_MANY;
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) return BAD;
    seen.add(name);
  }
  // HTTP/1.0 has no transfer codings, so such framing cannot be trusted (RFC 9112, section 6.1). Only `chunked` is supported.
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion !== '1.1' || coding.toLowerCase() !== 'chunked')) return BAD;
  // Such as `1.2.3.4.5`: no URL has that host.
  if (!URL.canParse(`http://${headers.host ?? 'localhost'}`)) return BAD;
  // Section 3.2: no fragments.
  if (url.includes('#') || !(url.startsWith('/') || isOwn(url, headers.host))) return BAD;
  return headers.expect === undefined || /^100-continue$/i.test(headers.expect) ? undefined : UNEXPECTED;
}

/** Whether a URL in absolute form (section 3.2.2) has the same host as the `Host` header. */
function isOwn(url: string, host: string | undefined): boolean {
  const target = /^https?:/i.test(url) ? URL.parse(url) : null;
  return target !== null && target.username === '' && target.password === '' && target.host === host?.toLowerCase();
}

/**
 * Compresses JSON responses of more than 1 KiB for clients that accept gzip. Responses with a secret are not compressed: next to
 * text that a customer has chosen, the compressed length would reveal the secret to an observer of the network, bit by bit
 * (BREACH).
 */
import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { SECRET } from '../web/responses.ts';

const SMALLEST_BYTES = 1024;

const zip = promisify(gzip);

/** Compresses the response if it should be. A response without a length is a long list, and is compressed while it is sent. */
export async function compressed({ headers, method }: IncomingMessage, answer: Response): Promise<Response> {
  const length = answer.headers.get('content-length');
  const isJson = answer.headers.get('content-type') === 'application/json';
  const isSecret = answer.headers.get('cache-control') === SECRET['cache-control'];
  if (!isJson || isSecret || method === 'HEAD' || (length !== null && Number(length) <= SMALLEST_BYTES)) return answer;
  answer.headers.append('vary', 'accept-encoding');
  if (!takesGzip(headers['accept-encoding'])) return answer;
  const zipped =
    length === null
      ? answer.body?.pipeThrough(new CompressionStream('gzip'))
      : new Uint8Array(await zip(Buffer.from(await answer.arrayBuffer())));
  const kept = new Headers(answer.headers);
  kept.delete('content-length');
  kept.set('content-encoding', 'gzip');
  return new Response(zipped ?? null, { status: answer.status, headers: kept });
}

/** A weight of 0 refuses gzip (RFC 9110, section 12.5.3). */
function takesGzip(accepted: string | string[] | undefined): boolean {
  return String(accepted ?? '')
    .split(',')
    .some((each) => /^\s*gzip\s*(;\s*q=(1(\.0*)?|0\.0*[1-9]\d*)\s*)?$/i.test(each));
}

/**
 * Answers in JSON of more than 1 KiB go out compressed to clients that take gzip. Answers with a secret do not: beside a name that
 * a customer has chosen, the compressed length would tell the secret to an observer of the network, bit by bit (BREACH).
 */
import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { SECRET } from '../web/responses.ts';

const SMALLEST = 1024;

const zip = promisify(gzip);

/** The same answer. One without a length is a list of any length: it is compressed while it is sent. */
export async function compressed({ headers, method }: IncomingMessage, answer: Response): Promise<Response> {
  const length = answer.headers.get('content-length');
  const isJson = answer.headers.get('content-type') === 'application/json';
  const isSecret = answer.headers.get('cache-control') === SECRET['cache-control'];
  if (!isJson || isSecret || method === 'HEAD' || (length !== null && Number(length) <= SMALLEST)) return answer;
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

/** RFC 9110, section 12.5.3: a weight of 0 refuses it. */
function takesGzip(accepted: string | string[] | undefined): boolean {
  return String(accepted ?? '')
    .split(',')
    .some((each) => /^\s*gzip\s*(;\s*q=(1(\.0*)?|0\.0*[1-9]\d*)\s*)?$/i.test(each));
}

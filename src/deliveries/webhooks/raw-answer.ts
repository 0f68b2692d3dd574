/**
 * Watches what a connection sends in answer to one request, beside Node's parser: whether a byte came at all, the status
 * of an answer that the parser refuses, and how many bytes come. The bytes of the connection count, because chunks may have
 * any amount of framing around a body of a few bytes.
 *
 * The parser stays strict. Its refusal ends the connection, so no second reader sees bytes that it could understand
 * differently, which is what request smuggling needs. A lenient parser (`insecureHTTPParser`) would keep the connection,
 * and still refuses headers without a colon or over `maxHeaderSize`.
 */
import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';

/** How much of an answer is kept. The status line comes first, except for informational answers. */
const KEPT_BYTES = 4096;
/** How much may come before the end of the head, and how much after it. The parser limits each head, but not how many are informational. */
const MOST_BYTES = 64 * 1024;

export interface RawAnswer {
  /** Whether the request used a connection that an earlier one had opened, and no byte of an answer arrived on it. */
  isUnanswered(): boolean;
  /** The status in the status line (RFC 9112, section 4); undefined when there is no complete one. */
  status(): number | undefined;
}

/** Call it before the request has its socket. @param flooded called when too much has come without a status, or after it. */
export function watchAnswer(request: ClientRequest, flooded: () => void): RawAnswer {
  let text = '';
  let received = 0;
  let hasSocket = false;
  request.once('socket', (socket: Socket) => {
    hasSocket = true;
    const onData = (chunk: Buffer): void => {
      // The chunk with the end of the head may have much of the body, too.
      if (received > MOST_BYTES) flooded();
      received += chunk.length;
      if (text.length < KEPT_BYTES) text += chunk.toString('latin1', 0, KEPT_BYTES);
    };
    // Before the parser's own listener, which may end the connection.
    socket.prependListener('data', onData);
    request.once('response', () => (received = 0));
    request.once('close', () => void socket.off('data', onData));
  });
  return {
    isUnanswered: () => hasSocket && request.reusedSocket && text === '',
    status: () => statusIn(text),
  };
}

function statusIn(text: string): number | undefined {
  let rest = text;
  while (/^HTTP\/\d\.\d 1\d\d[ \r\n]/.test(rest)) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    rest = rest.slice(end + 4);
  }
  const [, status] = /^HTTP\/\d\.\d ([2-9]\d\d)[ \r\n]/.exec(rest) ?? [];
  return status === undefined ? undefined : Number(status);
}

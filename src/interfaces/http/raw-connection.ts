/**
 * Writes responses directly to a connection where Node reports no request: plain HTTP on the TLS port, and bytes that the
 * parser rejects.
 */
import { randomBytes } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** How long a client has to read its response. */
const LINGER_MS = 1000;
/** The content type of a TLS handshake record (RFC 8446, section 5.1). */
const TLS_HANDSHAKE = 0x16;

/** Writes a whole response in the `error` shape and ends the connection. */
export function answerAndEnd(connection: Duplex, status: number, message: string): void {
  const body = JSON.stringify({ error: message });
  connection.write(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      // Every response has an id, even though nothing is logged for bytes that are not a request.
      `X-Request-Id: ${randomBytes(9).toString('hex')}-00000000`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  endAfterAnswer(connection);
}

function endAfterAnswer(connection: Duplex): void {
  connection.end();
  // Drops what still arrives. With unread data, closing would reset the connection before the client has read the response.
  connection.resume();
  setTimeout(() => connection.destroy(), LINGER_MS).unref();
}

/**
 * Answers plain HTTP on the TLS port with a readable response instead of a handshake error, by reading the first byte of each
 * connection before TLS does.
 */
export function refusePlainHttp(server: Server, timeoutMs: number): void {
  const handOver = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const giveUp = (): void => void socket.destroy();
    // There is no other listener yet: an error must not end the process, and a silent client must not hold the socket.
    socket.on('error', giveUp);
    socket.setTimeout(timeoutMs, giveUp);
    socket.once('data', (first) => {
      socket.setTimeout(0);
      socket.off('timeout', giveUp);
      if (first[0] !== TLS_HANDSHAKE) return answerAndEnd(socket, 400, 'This is an HTTPS port: use https://');
      socket.pause();
      socket.unshift(first);
      for (const listener of handOver) listener.call(server, socket);
    });
  });
}

/**
 * Answers requests that Node's parser rejects, once and in order: earlier requests are answered first, and a request that has
 * its response already gets no second one, so that no response can be mistaken for another's.
 * @param isUntimed whether the request has no time limit.
 */
export function brokenRequests(isUntimed: (request: IncomingMessage) => boolean) {
  /** Each connection's unfinished responses, and the latest one. */
  const exchanges = new WeakMap<Duplex, readonly ServerResponse[]>();
  const over = new WeakSet<Duplex>();
  return {
    /** Call this for each request that begins. */
    note(response: ServerResponse): void {
      const earlier = exchanges.get(response.req.socket) ?? [];
      exchanges.set(response.req.socket, [...earlier.filter((exchange) => !exchange.writableFinished), response]);
    },
    /** Ends the connection, with the response for this error. */
    answer(error: NodeJS.ErrnoException, connection: Duplex): void {
      // Node reports a timeout only once for a request.
      const current = exchanges.get(connection)?.at(-1)?.req;
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && current && isUntimed(current)) return;
      // The parser reports the error again for everything that still arrives.
      if (over.has(connection)) return;
      over.add(connection);
      const all = exchanges.get(connection) ?? [];
      const latest = all.at(-1);
      const broken = latest?.req.complete === false ? latest : undefined;
      const before = all.findLast((exchange) => exchange !== broken && !exchange.writableFinished);
      const end = (): void => refuse(error.code ?? '', connection, broken?.headersSent ?? false);
      if (before && connection.writable) before.once('close', end);
      else end();
    },
  };
}

/** Answers a request that is not HTTP, too large or too slow. After an error of TLS or the connection, no response is possible. */
function refuse(code: string, connection: Duplex, isAnswered: boolean): void {
  if (!connection.writable || !/^(HPE_|ERR_HTTP_)/.test(code)) connection.destroy();
  // Anything after "Connection: close" is not a request.
  else if (isAnswered || code === 'HPE_CLOSED_CONNECTION') endAfterAnswer(connection);
  else if (code === 'HPE_HEADER_OVERFLOW') answerAndEnd(connection, 431, 'Request headers are too large');
  else if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') answerAndEnd(connection, 413, 'Request body is too large');
  else if (code === 'ERR_HTTP_REQUEST_TIMEOUT') answerAndEnd(connection, 408, 'Request took too long');
  else answerAndEnd(connection, 400, 'Bad request');
}

/**
 * Answers written straight to a connection, for what Node does not hand on as a request: plain HTTP on the TLS port, and
 * what the parser gives up on.
 */
import { randomBytes } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** How long a client has to read its answer. */
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
      // Every answer has an id, even if nothing is logged for bytes that are not a request.
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
  // Read and drop what still arrives: closing on unread data would reset the connection before the answer is read.
  connection.resume();
  setTimeout(() => connection.destroy(), LINGER_MS).unref();
}

/**
 * Gives plain HTTP on the TLS port a readable answer instead of a handshake error: looks at the first byte of each
 * connection before TLS does. `timeout` in ms.
 */
export function refusePlainHttp(server: Server, timeout: number): void {
  const handOver = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const giveUp = (): void => void socket.destroy();
    // Nobody else listens yet: an error must not end the process, nor silence hold the socket.
    socket.on('error', giveUp);
    socket.setTimeout(timeout, giveUp);
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
 * Answers what Node's parser gives up on, once and in its turn: requests before the broken one are answered first, and
 * one that has its answer already gets no second, so that none can be taken for another's.
 * @param isUntimed whether a request may take as long as it keeps coming.
 */
export function brokenRequests(isUntimed: (request: IncomingMessage) => boolean) {
  /** Each connection's unfinished exchanges, and the latest. */
  const exchanges = new WeakMap<Duplex, readonly ServerResponse[]>();
  const over = new WeakSet<Duplex>();
  return {
    /** To be called with each request that begins. */
    note(response: ServerResponse): void {
      const earlier = exchanges.get(response.req.socket) ?? [];
      exchanges.set(response.req.socket, [...earlier.filter((exchange) => !exchange.writableFinished), response]);
    },
    /** Ends the connection as the error asks for. */
    answer(error: NodeJS.ErrnoException, connection: Duplex): void {
      // Node says it once for a request.
      const current = exchanges.get(connection)?.at(-1)?.req;
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && current && isUntimed(current)) return;
      // The parser reports it again with all that still comes.
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

/** Answers what is not HTTP, too large or too slow. After an error of TLS or of the connection nobody listens. */
function refuse(code: string, connection: Duplex, isAnswered: boolean): void {
  if (!connection.writable || !/^(HPE_|ERR_HTTP_)/.test(code)) connection.destroy();
  // Whatever comes after "Connection: close" is no request.
  else if (isAnswered || code === 'HPE_CLOSED_CONNECTION') endAfterAnswer(connection);
  else if (code === 'HPE_HEADER_OVERFLOW') answerAndEnd(connection, 431, 'Request headers are too large');
  else if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') answerAndEnd(connection, 413, 'Request body is too large');
  else if (code === 'ERR_HTTP_REQUEST_TIMEOUT') answerAndEnd(connection, 408, 'Request took too long');
  else answerAndEnd(connection, 400, 'Bad request');
}

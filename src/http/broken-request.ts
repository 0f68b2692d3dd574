/**
 * What a connection gets when Node's parser gives up on it: one answer, in its turn. Requests before the broken one are
 * answered first, and one that has its answer already gets no second, so that none can be taken for another's.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { answerAndEnd, endAfterAnswer } from './raw-answer.ts';

type Exchange = ServerResponse;

export interface BrokenRequests {
  /** To be called with each request that begins. */
  note(response: Exchange): void;
  /** Ends the connection as the error asks for. */
  answer(error: NodeJS.ErrnoException, connection: Duplex): void;
}

export function brokenRequests(): BrokenRequests {
  /** Of each connection, what is not answered yet, and the latest. */
  const exchanges = new WeakMap<Duplex, readonly Exchange[]>();
  const over = new WeakSet<Duplex>();
  return {
    note(response) {
      const earlier = exchanges.get(response.req.socket) ?? [];
      exchanges.set(response.req.socket, [...earlier.filter((exchange) => !exchange.writableFinished), response]);
    },
    answer(error, connection) {
      // The parser says it anew with all that still comes.
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

/** What is no HTTP, too large or too slow. Errors of TLS and of the connection have nobody to answer to. */
function refuse(code: string, connection: Duplex, isAnswered: boolean): void {
  if (!connection.writable || !/^(HPE_|ERR_HTTP_)/.test(code)) connection.destroy();
  // Whatever comes after "Connection: close" is no request.
  else if (isAnswered || code === 'HPE_CLOSED_CONNECTION') endAfterAnswer(connection);
  else if (code === 'HPE_HEADER_OVERFLOW') answerAndEnd(connection, 431, 'Request headers are too large');
  else if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') answerAndEnd(connection, 413, 'Request body is too large');
  else if (code === 'ERR_HTTP_REQUEST_TIMEOUT') answerAndEnd(connection, 408, 'Request took too long');
  else answerAndEnd(connection, 400, 'Bad request');
}

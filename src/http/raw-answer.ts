/** Answers written straight to a connection, for what is no request that Node would hand on. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

/** How long a client has to read its answer, in ms. */
const LINGER = 1000;

/** A whole response in the `error` shape, after which the connection ends. */
export function answerAndEnd(connection: Duplex, status: number, message: string): void {
  const body = JSON.stringify({ error: message });
  connection.write(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  endAfterAnswer(connection);
}

/** Ends a connection on which all has been written that will be. */
export function endAfterAnswer(connection: Duplex): void {
  connection.end();
  // What is still coming is read and dropped: closing on unread data would reset the connection under the answer.
  connection.resume();
  setTimeout(() => connection.destroy(), LINGER).unref();
}

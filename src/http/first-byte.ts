/**
 * Plain HTTP on the TLS port gets a readable answer instead of a handshake error: the first byte of a connection tells
 * them apart before TLS sees it.
 */
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import { answerAndEnd } from './raw-answer.ts';

/** The content type of a TLS handshake record (RFC 8446, section 5.1). */
const TLS_HANDSHAKE = 0x16;

/** Puts the look at the first byte before the server's own treatment of connections. `timeout` in ms. */
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
      if (first[0] !== TLS_HANDSHAKE) {
        answerAndEnd(socket, 400, 'This is an HTTPS port: use https://');
        return;
      }
      socket.pause();
      socket.unshift(first);
      for (const listener of handOver) listener.call(server, socket);
    });
  });
}

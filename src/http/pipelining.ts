/** Requests that a client sends before it has the answers to earlier ones. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const MOST = 100;

/**
 * Told of each request that begins, reads no more from a connection while so many of its requests are not answered. Node
 * does so by the bytes of waiting answers, of which there are none while a database is asked.
 */
export function limitPipelining(most = MOST): (response: ServerResponse) => void {
  const unanswered = new WeakMap<Socket, number>();
  return (response) => {
    const { socket } = response.req;
    const count = (): number => unanswered.get(socket) ?? 0;
    // Node resumes it itself at the end of a request, and to drop a body.
    if (!unanswered.has(socket)) socket.on('resume', () => void (count() >= most && socket.pause()));
    unanswered.set(socket, count() + 1);
    if (count() >= most) socket.pause();
    response.once('close', () => {
      unanswered.set(socket, count() - 1);
      if (count() === most - 1) socket.resume();
    });
  };
}

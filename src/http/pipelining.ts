/** Requests that a client sends before it has the answers to earlier ones. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const MOST = 100;

/**
 * Stops reading from a connection while too many of its requests wait for an answer. Node itself only counts the bytes of
 * waiting answers, and a request that waits for a database has none.
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

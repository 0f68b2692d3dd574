/** Reads a request's body of any size, no faster than its reader takes it. */
import type { IncomingMessage } from 'node:http';
import { BerthError } from '../../foundation/base/errors.ts';

/** How long a client may keep us waiting in total. Each received byte extends this, so that 1 KiB/s is fast enough. */
const TIMEOUT_MS = 60_000;
const MS_PER_BYTE = 1000 / 1024;

/**
 * When the reader stops early, the connection stays open, so that the client gets a response.
 * @throws {BerthError} `incomplete_body` when the client disconnects before the end, or is too slow.
 */
export async function* receivedBytes(incoming: IncomingMessage): AsyncGenerator<Buffer, void, void> {
  const chunks = incoming.iterator({ destroyOnReturn: false });
  let leftMs = TIMEOUT_MS;
  let timer: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const began = performance.now();
      timer = setTimeout(() => incoming.destroy(), leftMs);
      const { done, value } = (await chunks.next()) as IteratorResult<Buffer, undefined>;
      clearTimeout(timer);
      if (done) break;
      leftMs += value.length * MS_PER_BYTE - (performance.now() - began);
      yield value;
    }
  } catch (error) {
    throw incomplete(error);
  } finally {
    clearTimeout(timer);
    // If the reader stopped early, the server drains the remaining bytes.
    await chunks.return?.();
  }
  if (!incoming.complete) throw incomplete();
}

function incomplete(cause?: unknown): BerthError {
  return new BerthError('incomplete_body', 'Request body is incomplete', { cause });
}

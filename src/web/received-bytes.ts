/** A request's body of any size, as fast as it is taken. */
import type { IncomingMessage } from 'node:http';
import { BerthError } from '../base/errors.ts';

/** How long a client may keep us waiting in all, and by how much each byte that comes prolongs it: 1 KiB/s. */
const TIMEOUT_MS = 60_000;
const MS_PER_BYTE = 1000 / 1024;

/**
 * The connection stays when the reader stops, so that the client gets its answer.
 * @throws {BerthError} `incomplete_body` when the client goes away before the end, or is too slow.
 */
export async function* receivedBytes(incoming: IncomingMessage): AsyncGenerator<Buffer, void, void> {
  const chunks = incoming.iterator({ destroyOnReturn: false });
  let patience = TIMEOUT_MS;
  let timer: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const began = performance.now();
      timer = setTimeout(() => incoming.destroy(), patience);
      const { done, value } = (await chunks.next()) as IteratorResult<Buffer, undefined>;
      clearTimeout(timer);
      if (done) break;
      patience += value.length * MS_PER_BYTE - (performance.now() - began);
      yield value;
    }
  } catch (error) {
    throw incomplete(error);
  } finally {
    clearTimeout(timer);
    // A reader that stops early leaves the remaining bytes to be drained.
    await chunks.return?.();
  }
  if (!incoming.complete) throw incomplete();
}

function incomplete(cause?: unknown): BerthError {
  return new BerthError('incomplete_body', 'Request body is incomplete', { cause });
}

/**
 * The name of a request: in its response's `x-request-id`, in each log line that it causes, and in the audit of what it
 * changed. A proxy that the operator trusts may have named it already; from anybody else a name is not taken, since it
 * would let them write into the log what they like.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export const REQUEST_ID = 'x-request-id';

const SANE = /^[\w.:-]{1,64}$/;

export type NameRequest = (incoming: IncomingMessage) => string;

/** @param isProxy whether a request came from a proxy that may name it. */
export function requestNames(isProxy: (incoming: IncomingMessage) => boolean): NameRequest {
  // Chance once, then a count: unique at a fraction of the cost of a UUID.
  const prefix = randomBytes(9).toString('hex');
  let count = 0;
  return (incoming) => {
    const given = incoming.headers[REQUEST_ID];
    if (typeof given === 'string' && SANE.test(given) && isProxy(incoming)) return given;
    count += 1;
    // As long as each other: a response is, too.
    return `${prefix}-${count.toString(36).padStart(8, '0')}`;
  };
}

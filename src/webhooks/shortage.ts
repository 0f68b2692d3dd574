/** Tells when an attempt failed for want of something of this machine's own: the receiver was never asked. */
import { errorCode } from '../errors.ts';

/** Descriptors, memory, buffers, local ports. */
const LACKS = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL']);
/** Before there is a connection: reading the hosts file, opening the socket. A failing `write` may have asked. */
const BEFORE = new Set(['open', 'connect']);

/** Whether that is why no connection came about; of several addresses tried, with each of them. */
export function isShortage(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isShortage);
  if (!(error instanceof Error) || !('syscall' in error)) return false;
  return BEFORE.has(String(error.syscall)) && LACKS.has(errorCode(error) ?? '');
}

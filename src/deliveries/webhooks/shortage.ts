/** Recognizes attempts that never reached the receiver because this machine lacked a resource. */
import { errorCode } from '../../foundation/base/errors.ts';

/** The error codes for a lack of descriptors, memory, buffers or local ports. */
const LACKS = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL']);
/**
 * The system calls before there is a connection: reading the hosts file, and opening the socket. A failed `write` may
 * have reached the receiver.
 */
const BEFORE = new Set(['open', 'connect']);

/**
 * Whether a lack of resources is why there was no connection. If several addresses were tried, it must be the reason
 * for all of them.
 */
export function isShortage(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isShortage);
  if (!(error instanceof Error) || !('syscall' in error)) return false;
  return BEFORE.has(String(error.syscall)) && LACKS.has(errorCode(error) ?? '');
}

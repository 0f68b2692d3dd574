/** Reads when a busy receiver wants to be asked again (RFC 9110, section 10.2.3). */
import { type Micros, SECOND } from '../../foundation/base/clock.ts';

/** The longest wait that a receiver can ask for. */
export const LONGEST_WAIT: Micros = 3600 * SECOND;

/** The statuses with which a receiver can ask for a wait. */
const BUSY = new Set([429, 503]);
/** A date begins with the name of a day, in each of the three forms that HTTP knows (RFC 9110, section 5.6.7). */
const DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

/**
 * How long the receiver asks to wait, from 0 to an hour, in µs.
 * @param header the value of `Retry-After`: seconds, or a date.
 * @param now the wall clock.
 */
export function retryAfter(status: number, header: string | undefined, now: Micros): Micros {
  const text = header?.trim() ?? '';
  if (!BUSY.has(status)) return 0;
  const wait = /^\d+$/.test(text) ? Number(text) * SECOND : DATE.test(text) ? dateOf(text) - now : 0;
  return wait > 0 ? Math.min(wait, LONGEST_WAIT) : 0;
}

/** NaN when the text is not a date. */
function dateOf(text: string): Micros {
  // The oldest form has no zone; all are in UTC.
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) * 1000;
}

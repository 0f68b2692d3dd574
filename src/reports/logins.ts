/** Logins to a directory and those that were refused, from sshd's log in the journal. */
import { errorMessage } from '../errors.ts';
import { linesNaming, type LogSpan } from './journal.ts';
import { type Attempts, attemptsFrom, attemptsIn, attemptsOfUnknown, type LogLine } from './sshd-log.ts';
import type { Happening } from './timeline.ts';

export interface Logins {
  readonly logins: readonly Happening[];
  /** Why there are none: the journal has nothing of sshd's, or could not be read. */
  readonly missing?: 'no journal' | Error;
  /** Connections that are left out, since they wrote lines of their own into sshd's log. */
  readonly forged: number;
}

export function loginsOf(username: string, span: LogSpan): Promise<Logins> {
  return loginsIn(username, span, (lines) => attemptsIn(lines, username));
}

/** Those that came from an address. */
export function loginsFrom(address: string, span: LogSpan): Promise<Logins> {
  return loginsIn(address, span, (lines) => attemptsFrom(lines, address));
}

/** Those by a name that no directory has. */
export function loginsOfUnknown(name: string, span: LogSpan): Promise<Logins> {
  return loginsIn(name, span, (lines) => attemptsOfUnknown(lines, name));
}

async function loginsIn(text: string, span: LogSpan, read: (lines: readonly LogLine[]) => Attempts): Promise<Logins> {
  const { since, until = Infinity } = span;
  try {
    const lines = await linesNaming(text, span);
    if (lines === undefined) return { logins: [], missing: 'no journal', forged: 0 };
    const { attempts, forged } = read(lines);
    return { logins: attempts.filter(({ at }) => at >= since && at <= until), forged };
  } catch (error) {
    return { logins: [], missing: error instanceof Error ? error : new Error(errorMessage(error)), forged: 0 };
  }
}

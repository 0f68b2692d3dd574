/** Successful and refused logins to a directory, from sshd's log. */
import { errorMessage } from '../../foundation/base/errors.ts';
import {
  type Attempts,
  attemptsFrom,
  attemptsIn,
  attemptsOfUnknown,
  type LogLine,
  type LogSpan,
  type SshdLog,
} from './sshd-log.ts';
import type { Happening } from './timeline.ts';

export interface Logins {
  readonly logins: readonly Happening[];
  /** Why there are none: sshd has no log, or it could not be read. */
  readonly missing?: 'no log' | Error;
  /** The number of connections that are left out, since they forged lines in sshd's log. */
  readonly forged: number;
}

export function loginsOf(log: SshdLog, username: string, span: LogSpan): Promise<Logins> {
  return loginsIn(log, username, span, (lines) => attemptsIn(lines, username));
}

/** The attempts from an address. */
export function loginsFrom(log: SshdLog, address: string, span: LogSpan): Promise<Logins> {
  return loginsIn(log, address, span, (lines) => attemptsFrom(lines, address));
}

/** The attempts with a username that no directory has. */
export function loginsOfUnknown(log: SshdLog, name: string, span: LogSpan): Promise<Logins> {
  return loginsIn(log, name, span, (lines) => attemptsOfUnknown(lines, name));
}

async function loginsIn(
  log: SshdLog,
  text: string,
  span: LogSpan,
  read: (lines: readonly LogLine[]) => Attempts,
): Promise<Logins> {
  const { since, until = Infinity } = span;
  try {
    const lines = await log.linesNaming(text, span);
    if (lines === undefined) return { logins: [], missing: 'no log', forged: 0 };
    const { attempts, forged } = read(lines);
    return { logins: attempts.filter(({ at }) => at >= since && at <= until), forged };
  } catch (error) {
    return { logins: [], missing: error instanceof Error ? error : new Error(errorMessage(error)), forged: 0 };
  }
}

/**
 * Structured logs: JSON for programs, lines for people on a terminal and, with a priority, in the journal. Callers log ids and names,
 * never secrets. The fields listed below are removed in case one slips in.
 */
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config } from './config.ts';
import { isJournal, PRIORITY } from './journal.ts';
import { readableLines } from './readable-log.ts';

export type Log = Logger;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

const SECRET_FIELDS = ['password', 'sftp_password', 'password_hash', 'webhook_secret', 'key', 'authorization'];

/** How many bytes wait while standard error is blocked; lines beyond that are dropped. */
const MAX_BUFFERED_BYTES = 1 << 20;

/** Standard error. A line that it does not accept, for example on a full disk, waits for the next one and does not end the process. */
function standardError() {
  const stderr = pino.destination({ dest: 2, sync: true, maxLength: MAX_BUFFERED_BYTES });
  return stderr.on('error', () => undefined);
}

/** Text for people. */
function text(withTime: boolean): DestinationStream {
  const stderr = standardError();
  return { write: (json) => void stderr.write(`${readableLines(json, { withTime }).join('\n')}\n`) };
}

/** A logger that writes to standard error, so that a command's standard output stays its result. */
export function createLog(level: LogLevel, destination?: DestinationStream): Log {
  const options = { level, base: null, redact: { paths: SECRET_FIELDS.flatMap((f) => [f, `*.${f}`]), remove: true } };
  if (destination) return pino(options, destination);
  return pino(options, process.stderr.isTTY ? text(true) : standardError());
}

const PRIORITIES: Readonly<Record<number, number>> = {
  10: PRIORITY.debug,
  20: PRIORITY.debug,
  30: PRIORITY.info,
  40: PRIORITY.warning,
  50: PRIORITY.err,
  60: PRIORITY.crit,
};

/**
 * The log of a process that a supervisor or an operator starts: text on a terminal and in the journal, JSON where a program reads it or
 * the settings ask for it.
 */
export function openLog(
  { logLevel, logFormat }: Pick<Config, 'logLevel' | 'logFormat'>,
  environment: Readonly<Record<string, string | undefined>>,
): Log {
  if (isJournal(environment)) return createLog(logLevel, journalStream(logFormat === 'json'));
  if (logFormat === 'auto') return createLog(logLevel);
  return createLog(logLevel, logFormat === 'json' ? standardError() : text(true));
}

/** Standard error when it is the journal: prefixes each line with its priority. pino sets `lastLevel` because of the metadata symbol. */
function journalStream(isJson: boolean): DestinationStream {
  const stderr = standardError();
  return {
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 30,
    write(json: string) {
      const prefix = `<${PRIORITIES[this.lastLevel] ?? PRIORITY.info}>`;
      const lines = isJson ? [json.trimEnd()] : readableLines(json, { withTime: false });
      stderr.write(lines.map((line) => `${prefix}${line}\n`).join(''));
    },
  } as DestinationStream & { readonly lastLevel: number };
}

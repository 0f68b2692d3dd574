/**
 * Structured logs: JSON for machines, readable lines on a terminal. Secrets never get here: callers log ids and
 * names, and the paths listed below are removed should one slip in.
 */
import { type DestinationStream, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type Log = Logger;

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

const SECRET_FIELDS = ['password', 'sftp_password', 'password_hash', 'webhook_secret', 'key', 'authorization'];

/** A logger that writes to standard error, so that a command's standard output stays its result. */
export function createLog(level: LogLevel, destination?: DestinationStream): Log {
  const options = { level, base: null, redact: { paths: SECRET_FIELDS.flatMap((f) => [f, `*.${f}`]), remove: true } };
  if (destination) return pino(options, destination);
  if (process.stderr.isTTY)
    return pino(options, pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l' }));
  return pino(options, pino.destination({ dest: 2, sync: true }));
}

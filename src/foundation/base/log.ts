/**
 * Structured logs: JSON for programs, lines for people on a terminal and, with a priority, in the journal. Callers log ids and names,
 * never secrets. The fields listed below are removed in case one slips in.
 */
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config } from './config.ts';
import { styleText } from 'node:util';
import { escaped } from './text.ts';
import { fstatSync } from 'node:fs';

/** The journal's priorities (sd-daemon(3), syslog(3)): if standard error is the journal, a line that begins with `<N>` has priority N. */
export const PRIORITY = { crit: 2, err: 3, warning: 4, info: 6, debug: 7 } as const;

/** Whether standard error is the journal: systemd identifies it by device and inode (systemd.exec(5), JOURNAL_STREAM). */
export function isJournal(environment: Readonly<Record<string, string | undefined>>): boolean {
  const named = environment['JOURNAL_STREAM'];
  if (named === undefined) return false;
  const { dev, ino } = fstatSync(2);
  return named === `${dev}:${ino}`;
}

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
function readable(withTime: boolean): DestinationStream {
  const stderr = standardError();
  return { write: (json) => void stderr.write(`${readableLines(json, { withTime }).join('\n')}\n`) };
}

/** A logger that writes to standard error, so that a command's standard output stays its result. */
export function createLog(level: LogLevel, destination?: DestinationStream): Log {
  const options = { level, base: null, redact: { paths: SECRET_FIELDS.flatMap((f) => [f, `*.${f}`]), remove: true } };
  if (destination) return pino(options, destination);
  return pino(options, process.stderr.isTTY ? readable(true) : standardError());
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
  return createLog(logLevel, logFormat === 'json' ? standardError() : readable(true));
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

// Turns a log record into lines for people: time, level, message and fields, with the stacks of errors below.

const LEVELS = {
  10: ['TRACE', 'gray'],
  20: ['DEBUG', 'gray'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
  60: ['FATAL', 'red'],
} as const;

/** A JSON line of pino. Its level is one of pino's, since berth defines none. */
interface LogRecord extends Readonly<Record<string, unknown>> {
  readonly level: keyof typeof LEVELS;
  /** In ms since 1970. */
  readonly time: number;
  readonly msg?: string;
}

interface SerializedError extends Readonly<Record<string, unknown>> {
  readonly type: string;
  readonly stack: string;
}

/**
 * The lines of a record, without line ends: the first one says what happened, the others are indented. They are coloured if
 * standard error is a terminal. No text in the record can move the cursor or look like a line of its own.
 */
export function readableLines(json: string, { withTime }: { readonly withTime: boolean }): string[] {
  const { level, time, msg, ...fields } = JSON.parse(json) as LogRecord;
  const [label, colour] = LEVELS[level];
  const errors = Object.values(fields).filter(isSerializedError);
  const head = [
    ...(withTime ? [timeOfDay(time)] : []),
    styled(colour, label) + ' '.repeat(5 - label.length),
    ...(msg === undefined ? [] : [escaped(msg)]),
    ...shownFields(fields),
  ];
  return [head.join(' '), ...errors.flatMap(errorLines).map((line) => `    ${line}`)];
}

/** The stack, which begins with the message and has those of the causes, then the error's other fields and the errors in it. */
function errorLines({ type: _type, message: _message, stack, aggregateErrors, ...fields }: SerializedError): string[] {
  const shown = shownFields(fields);
  const inner = Array.isArray(aggregateErrors) ? aggregateErrors.filter(isSerializedError).flatMap(errorLines) : [];
  return [
    ...stack.split('\n').map(escaped),
    ...(shown.length === 0 ? [] : [`  ${shown.join(' ')}`]),
    ...inner.map((line) => `  ${line}`),
  ];
}

/** `name=value` for each field that is not an error. */
function shownFields(fields: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(fields)
    .filter(([, value]) => !isSerializedError(value))
    .map(([name, value]) => `${styled('cyan', escaped(name))}=${escaped(shownValue(value))}`);
}

/** A string that is one word is shown without quotes. */
function shownValue(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

function isSerializedError(value: unknown): value is SerializedError {
  return typeof value === 'object' && value !== null && 'stack' in value && typeof value.stack === 'string';
}

/** The local time, such as `17:21:31.034`. */
function timeOfDay(time: number): string {
  const at = new Date(time);
  return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

function styled(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text, { stream: process.stderr });
}

/** Turns a log record into lines for people: time, level, message and fields, with the stacks of errors below. */
import { styleText } from 'node:util';
import { escaped } from './terminal.ts';

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

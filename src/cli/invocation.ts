/**
 * One run of `berth`: what a command takes from the process around it. When nobody reads its output any more
 * (`berth … | head`) it writes nothing further, and says nothing of it.
 */
import type { Clock } from '../clock.ts';
import { type Config, readConfig } from '../config.ts';
import { errorCode } from '../errors.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface Invocation {
  readonly environment: Environment;
  /** @throws {OperatorError} when the environment is wrong. */
  config(): Config;
  readonly clock: Clock;
  stdout(text: string): void;
  stderr(text: string): void;
  /** Writes one line to standard output. */
  print(line: string): void;
  /** Aborts when the command should end early; the reason is its exit status. */
  readonly stopped: AbortSignal;
  /** From here on SIGINT and SIGTERM abort `stopped`, so that the command can clean up. A second one ends it at once. */
  catchSignals(): AbortSignal;
}

/** Exit statuses, 128 and the signal's number, as shells have them. */
const INTERRUPTED = { SIGINT: 130, SIGTERM: 143 } as const;
/** The status of a command without a reader, which ends quietly as if by SIGPIPE. */
export const NO_READER = 141;

export function invoke(environment: Environment, clock: Clock): Invocation {
  const stop = new AbortController();
  const gone = new Set<NodeJS.WriteStream>();
  const writer = (stream: NodeJS.WriteStream): ((text: string) => void) => {
    stream.on('error', (error) => {
      if (errorCode(error) !== 'EPIPE') throw error;
      gone.add(stream);
      stop.abort(NO_READER);
    });
    return (text) => void (gone.has(stream) || stream.write(text));
  };
  const [stdout, stderr] = [writer(process.stdout), writer(process.stderr)];
  return {
    environment,
    config: () => readConfig(environment),
    clock,
    stdout,
    stderr,
    print: (line) => stdout(`${line}\n`),
    stopped: stop.signal,
    catchSignals() {
      const listener = (signal: 'SIGINT' | 'SIGTERM'): void => {
        process.off('SIGINT', listener).off('SIGTERM', listener);
        stop.abort(INTERRUPTED[signal]);
      };
      process.on('SIGINT', listener).on('SIGTERM', listener);
      return stop.signal;
    },
  };
}

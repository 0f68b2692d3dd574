/**
 * One run of `berth`, and its connections to the process around it. When its output is closed (`berth … | head`) it stops writing,
 * without an error.
 */
import type { Clock } from '../foundation/base/clock.ts';
import { type Config, readConfig } from '../foundation/base/config.ts';
import { errorCode } from '../foundation/base/errors.ts';
import { requireUsablePaths } from '../foundation/base/files.ts';

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
  /** Aborts when the command should end early; the reason is an `Interruption`. */
  readonly stopped: AbortSignal;
  /** From here on the first SIGINT or SIGTERM aborts `stopped`, so that the command can clean up. The second ends the process. */
  catchSignals(): AbortSignal;
}

/** Ends a command early. A signal's status is 128 and its number, as in shells. */
export class Interruption extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = 'Interruption';
    this.status = status;
  }
}

export function invoke(environment: Environment, clock: Clock): Invocation {
  const stop = new AbortController();
  const closed = new Set<NodeJS.WriteStream>();
  const writer = (stream: NodeJS.WriteStream): ((text: string) => void) => {
    stream.on('error', (error) => {
      closed.add(stream);
      if (errorCode(error) === 'EPIPE') return stop.abort(new Interruption('', 141));
      stderr(`berth: cannot write the output: ${error.message}\n`);
      process.exit(1);
    });
    return (text) => void (closed.has(stream) || stream.write(text));
  };
  const stdout = writer(process.stdout);
  const stderr = writer(process.stderr);
  return {
    environment,
    config() {
      requireUsablePaths(environment);
      return readConfig(environment);
    },
    clock,
    stdout,
    stderr,
    print: (line) => stdout(`${line}\n`),
    stopped: stop.signal,
    catchSignals() {
      const listener = (signal: 'SIGINT' | 'SIGTERM'): void => {
        process.off('SIGINT', listener).off('SIGTERM', listener);
        stop.abort(new Interruption('interrupted; nothing has changed', signal === 'SIGINT' ? 130 : 143));
      };
      process.on('SIGINT', listener).on('SIGTERM', listener);
      return stop.signal;
    },
  };
}

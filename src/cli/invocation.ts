/**
 * One run of `berth`: what a command takes from the process around it. When nobody reads its output any more
 * (`berth … | head`) it writes nothing further, and says nothing of it.
 */
import type { Clock } from '../base/clock.ts';
import { type Config, readConfig } from '../base/config.ts';
import { errorCode } from '../base/errors.ts';

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
  /** From here on SIGINT and SIGTERM abort `stopped`, so that the command can clean up. A second one ends it at once. */
  catchSignals(): AbortSignal;
}

/** Why a command ends early. The status is 128 and the signal's number, as shells have it. */
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
  const gone = new Set<NodeJS.WriteStream>();
  const writer = (stream: NodeJS.WriteStream): ((text: string) => void) => {
    stream.on('error', (error) => {
      gone.add(stream);
      if (errorCode(error) === 'EPIPE') return stop.abort(new Interruption('', 141));
      stderr(`berth: the output cannot be written: ${error.message}\n`);
      process.exit(1);
    });
    return (text) => void (gone.has(stream) || stream.write(text));
  };
  const stdout = writer(process.stdout);
  const stderr = writer(process.stderr);
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
        stop.abort(new Interruption('interrupted; nothing has changed', signal === 'SIGINT' ? 130 : 143));
      };
      process.on('SIGINT', listener).on('SIGTERM', listener);
      return stop.signal;
    },
  };
}

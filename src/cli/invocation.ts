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
  /** Aborts with an `Interruption`. */
  readonly stopped: AbortSignal;
  /** From here on SIGINT and SIGTERM abort `stopped`, so that the command can clean up. A second one ends it at once. */
  catchSignals(): AbortSignal;
}

/** Why a command ends early, and its exit status: 128 and the signal's number, as shells have it. */
export interface Interruption {
  readonly cause: 'SIGINT' | 'SIGTERM' | 'EPIPE';
  readonly status: number;
}

const INTERRUPTIONS: readonly Interruption[] = [
  { cause: 'SIGINT', status: 130 },
  { cause: 'SIGTERM', status: 143 },
];
const NO_READER: Interruption = { cause: 'EPIPE', status: 141 };

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
      const caught = new AbortController();
      for (const interruption of INTERRUPTIONS) {
        const listener = (): void => {
          caught.abort();
          stop.abort(interruption);
        };
        process.once(interruption.cause, listener);
        caught.signal.addEventListener('abort', () => process.off(interruption.cause, listener));
      }
      return stop.signal;
    },
  };
}

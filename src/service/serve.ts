/**
 * `berth serve`: runs the service until a signal ends it. SIGTERM and SIGINT let requests and deliveries in flight finish; a second one,
 * or ten seconds, end it at once. SIGHUP reads the certificate again. An uncaught error also ends it: the supervisor starts it again,
 * and the database is the truth.
 */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, unknownSettings } from '../foundation/base/config.ts';
import { DatabaseUnavailable } from '../foundation/db/away.ts';
import { isAnswering } from '../foundation/db/open.ts';
import { type Log, openLog } from '../foundation/base/log.ts';
import { ignoredLines } from '../foundation/base/settings-file.ts';
import { type Service, startService } from './service.ts';
import { LogKeeper } from './while-away.ts';
import { writeSync } from 'node:fs';
import { errorMessage } from '../foundation/base/errors.ts';

/** How long the end may take. */
const CLOSE_TIMEOUT_MS = 10_000;

/** The wait between two attempts to start while the database is away. */
const RETRY_MS = 1000;

/** How long one attempt may take. */
const MAX_ATTEMPT_MS = 60_000;

/** @param environment the process's environment, with systemd's variables. */
export async function serve(
  config: Config,
  environment: Readonly<Record<string, string | undefined>> = {},
): Promise<void> {
  process.title = 'berth serve'; // the name in ps, top and systemctl
  const log = openLog(config, environment);
  warnOfIgnored(environment, log);
  const systemd = createSystemd(environment, log);
  const die = (error: unknown): void => {
    log.fatal({ err: error }, 'an uncaught error ends berth');
    process.exit(1);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);

  const signalled = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  const stopping = new AbortController();
  void signalled.then(() => stopping.abort());
  await using keeper = new LogKeeper(config, log);
  const service = await startOnceAnswered({ config, log, systemd, keeper, signal: stopping.signal });
  if (!service) return;
  process.on('SIGHUP', service.reload);
  systemd.ready();
  await signalled;
  log.info('berth is stopping: requests and deliveries in flight finish first');
  setTimeout(() => {
    log.error('not everything finished in time; the next start repeats the rest');
    process.exit(1);
  }, CLOSE_TIMEOUT_MS).unref();
  process.once('SIGTERM', () => process.exit(1));
  process.once('SIGINT', () => process.exit(1));
  systemd.ending();
  await service.close();
  log.info('berth has stopped');
}

/** Warns of unknown settings, and of lines that systemd ignores: a typo would otherwise silently mean the default. */
export function warnOfIgnored(environment: Readonly<Record<string, string | undefined>>, log: Log): void {
  for (const name of unknownSettings(environment)) log.warn({ name }, `${name} is not a setting and has no effect`);
  for (const line of ignoredLines()) log.warn(line);
}

interface Starting {
  readonly config: Config;
  readonly log: Log;
  readonly systemd: Systemd;
  readonly keeper: LogKeeper;
  /** Aborts when the process should end. */
  readonly signal: AbortSignal;
}

/** Waits for a PostgreSQL that is away, while sshd serves. Undefined when the process should end before that. */
async function startOnceAnswered({ config, log, systemd, keeper, signal }: Starting): Promise<Service | undefined> {
  for (let logged = ''; !signal.aborted;) {
    try {
      return await startService(config, { log, keeper });
    } catch (error) {
      if (!(error instanceof Error) || ![error, error.cause].some((each) => each instanceof DatabaseUnavailable))
        throw error;
      await using _listener = await keeper.keep();
      if (error.message !== logged) log.warn(`${error.message}: berth waits for it, and sshd serves meanwhile`);
      logged = error.message;
      do {
        systemd.starting(2 * MAX_ATTEMPT_MS);
        await wait(RETRY_MS, undefined, { signal }).catch(() => undefined);
      } while (!signal.aborted && !(await isAnswering(config.database)));
    }
  }
  return undefined;
}

// Reports the service's state to systemd (sd_notify(3)): ready, alive, stopping. Node has no datagram sockets, but it
// can write to one that is open when it starts: `packaging/systemd/notifying` leaves it connected. Does nothing
// outside of a unit. Nothing here throws: a lost message shows as a missed watchdog.

export interface Systemd {
  /** Allows up to `ms` until the next message. */
  starting(ms: number): void;
  ready(): void;
  ending(): void;
}

/**
 * @param environment has BERTH_NOTIFY_FD, and WATCHDOG_USEC when the unit has a watchdog. After `ready`, systemd gets three messages per
 * watchdog period, as long as the event loop runs.
 */
export function createSystemd(environment: Readonly<Record<string, string | undefined>>, log: Log): Systemd {
  const fd = Number(environment['BERTH_NOTIFY_FD'] ?? Number.NaN);
  const period = Number(environment['WATCHDOG_USEC'] ?? 0) / 1000;
  let alive: NodeJS.Timeout | undefined;

  function notify(state: string): void {
    if (Number.isNaN(fd)) return;
    try {
      writeSync(fd, state);
    } catch (error) {
      log.warn({ reason: errorMessage(error) }, `could not send ${state} to systemd`);
    }
  }

  return {
    starting: (ms) => notify(`EXTEND_TIMEOUT_USEC=${ms * 1000}`),
    ready() {
      notify('READY=1');
      if (period > 0) alive = setInterval(notify, period / 3, 'WATCHDOG=1').unref();
    },
    ending() {
      clearInterval(alive);
      notify('STOPPING=1');
    },
  };
}

/**
 * Tells systemd the service's state (sd_notify(3)): ready, alive, ending. Node has no datagram sockets, but it can write
 * to one that it was started with: `packaging/systemd/notifying` leaves it connected. Outside of a unit nothing happens. Nothing
 * here throws: a message that did not arrive shows as a missed watchdog.
 */
import { writeSync } from 'node:fs';
import { errorMessage } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

export interface Systemd {
  /** It will take up to `ms` until the next message. */
  starting(ms: number): void;
  ready(): void;
  ending(): void;
}

/**
 * @param environment with BERTH_NOTIFY_FD, and WATCHDOG_USEC when the unit has a watchdog.
 * After `ready` it says that it is alive three times per watchdog period, as long as the event loop turns.
 */
export function createSystemd(environment: Readonly<Record<string, string | undefined>>, log: Log): Systemd {
  const fd = Number(environment['BERTH_NOTIFY_FD'] ?? Number.NaN);
  const period = Number(environment['WATCHDOG_USEC'] ?? 0) / 1000;
  let alive: NodeJS.Timeout | undefined;

  function say(state: string): void {
    if (Number.isNaN(fd)) return;
    try {
      writeSync(fd, state);
    } catch (error) {
      log.warn({ reason: errorMessage(error) }, `systemd did not get ${state}`);
    }
  }

  return {
    starting: (ms) => say(`EXTEND_TIMEOUT_USEC=${ms * 1000}`),
    ready() {
      say('READY=1');
      if (period > 0) alive = setInterval(say, period / 3, 'WATCHDOG=1').unref();
    },
    ending() {
      clearInterval(alive);
      say('STOPPING=1');
    },
  };
}

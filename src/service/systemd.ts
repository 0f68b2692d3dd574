/**
 * Reports the service's state to systemd (sd_notify(3)): ready, alive, stopping. Node has no datagram sockets, but it can write to one
 * that is open when it starts: `packaging/systemd/notifying` leaves it connected. Does nothing outside of a unit. Nothing here throws: a
 * lost message shows as a missed watchdog.
 */
import { writeSync } from 'node:fs';
import { errorMessage } from '../foundation/base/errors.ts';
import type { Log } from '../foundation/base/log.ts';

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

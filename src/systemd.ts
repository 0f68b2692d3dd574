/**
 * Tells systemd how the service is (sd_notify(3)): ready, alive, ending. Node has no datagram sockets, so systemd's own
 * systemd-notify(1) says it, which ends when systemd has taken note; the unit has to allow that with NotifyAccess=all.
 * Outside of a unit nothing happens. Nothing here throws: a word that did not arrive shows as a missed watchdog.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { errorMessage } from './errors.ts';
import type { Log } from './log.ts';

export interface Systemd {
  ready(): Promise<void>;
  ending(): Promise<void>;
}

/**
 * @param environment with what systemd puts there: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
 * After `ready` it says that it is alive three times per watchdog period, as long as the event loop turns.
 */
export function createSystemd(environment: Readonly<Record<string, string | undefined>>, log: Log): Systemd {
  const say = async (...words: string[]): Promise<void> => {
    if (!environment['NOTIFY_SOCKET']) return;
    try {
      await promisify(execFile)('systemd-notify', words, { env: { ...environment }, timeout: 10_000 });
    } catch (error) {
      log.warn({ reason: errorMessage(error) }, 'systemd-notify failed');
    }
  };
  let alive: NodeJS.Timeout | undefined;

  return {
    async ready() {
      await say('READY=1');
      const period = watchdogPeriod(environment);
      if (period !== undefined) alive = setInterval(() => void say('WATCHDOG=1'), period / 3).unref();
    },
    async ending() {
      clearInterval(alive);
      await say('STOPPING=1');
    },
  };
}

/** In ms; undefined without a watchdog, or with one that is for another process (sd_watchdog_enabled(3)). */
function watchdogPeriod(environment: Readonly<Record<string, string | undefined>>): number | undefined {
  const period = Number(environment['WATCHDOG_USEC'] ?? 0) / 1000;
  const forUs = [undefined, String(process.pid)].includes(environment['WATCHDOG_PID']);
  return period > 0 && forUs ? period : undefined;
}

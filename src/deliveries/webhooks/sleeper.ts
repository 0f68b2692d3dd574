/** A sleep that can be shortened, also by a call that comes before it begins. */
import { clearImmediate, setImmediate } from 'node:timers';

export interface Sleeper {
  /** Resolves after `ms`, or earlier if `wakeIn` has asked for that since the last sleep ended. */
  sleep(ms: number): Promise<void>;
  /**
   * Ends the sleep in `ms`. With 0, the sleep ends after the current turn of the event loop has handled its sockets.
   */
  wakeIn(ms: number): void;
}

export function createSleeper(): Sleeper {
  let woken = Promise.withResolvers<void>();
  let at = Infinity;
  let cancel = (): void => undefined;

  function wakeIn(ms: number): void {
    const when = performance.now() + ms;
    if (when >= at) return;
    cancel();
    at = ms === 0 ? Number.NEGATIVE_INFINITY : when;
    if (ms === 0) {
      const immediate = setImmediate(woken.resolve);
      cancel = () => clearImmediate(immediate);
    } else {
      const timer = setTimeout(woken.resolve, ms);
      cancel = () => clearTimeout(timer);
    }
  }

  return {
    wakeIn,
    async sleep(ms) {
      wakeIn(ms);
      await woken.promise;
      cancel();
      woken = Promise.withResolvers();
      at = Infinity;
    },
  };
}

/** A sleep that can be ended, also by a call that comes just before it begins. */
import { setImmediate } from 'node:timers';

export interface Sleeper {
  /** Resolves after `ms`, or when roused; at once when it was roused since the last sleep. */
  sleep(ms: number): Promise<void>;
  /** `now`, or `soon`: when what else the sockets have brought has been handled too, so that it can be done together. */
  rouse(when: 'now' | 'soon'): void;
}

export function createSleeper(): Sleeper {
  let roused = false;
  let isPending = false;
  let end: (() => void) | undefined;
  const rouse = (): void => {
    roused = true;
    end?.();
  };
  return {
    async sleep(ms) {
      if (!roused) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, ms);
        end = resolve;
        await promise;
        clearTimeout(timer);
        end = undefined;
      }
      roused = false;
    },
    rouse(when) {
      if (when === 'now') return rouse();
      if (isPending) return undefined;
      isPending = true;
      setImmediate(() => {
        isPending = false;
        rouse();
      });
      return undefined;
    },
  };
}

/** A sleep that can be ended, also by a call that comes just before it begins. */
import { clearImmediate, setImmediate } from 'node:timers';

export interface Sleeper {
  /** Resolves after `ms`, or when roused; at once when it was roused since the last sleep. */
  sleep(ms: number): Promise<void>;
  rouse(): void;
  /** Rouses when what else the sockets have brought is handled too, so that it can be done together. */
  rouseSoon(): void;
  /** Rouses in `ms`, or earlier if that was asked for already. */
  rouseIn(ms: number): void;
}

export function createSleeper(): Sleeper {
  let roused = false;
  let end: (() => void) | undefined;
  let soon: NodeJS.Immediate | undefined;
  let later: NodeJS.Timeout | undefined;
  const rouse = (): void => {
    if (soon) clearImmediate(soon);
    clearTimeout(later);
    soon = undefined;
    later = undefined;
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
    rouse,
    rouseSoon() {
      soon ??= setImmediate(rouse);
    },
    rouseIn(ms) {
      later ??= setTimeout(rouse, ms);
    },
  };
}

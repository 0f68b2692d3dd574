/** Which files nobody can vouch for: what was written to them before a power cut, or while lines of the log were lost. */
import { bootedBy, type UncleanBoot } from '../../boot.ts';
import type { Micros } from '../../clock.ts';

export interface DoubtsOptions {
  readonly boot?: UncleanBoot | undefined;
  /** When the journal began. */
  readonly journal: { readonly at: Micros };
}

export class Doubts {
  readonly #options: DoubtsOptions;
  /** By directory: until when lines were lost. */
  readonly #gaps = new Map<string, Micros>();

  constructor(options: DoubtsOptions) {
    this.#options = options;
  }

  /** Lines about that directory were lost until then. */
  add(directoryId: string, until: Micros): void {
    this.#gaps.set(directoryId, Math.max(until, this.#gaps.get(directoryId) ?? until));
  }

  /** Until when lines about that directory were lost; undefined for none. */
  of(directoryId: string): Micros | undefined {
    return this.#gaps.get(directoryId);
  }

  /** Whether a file that nothing explains may be a part of one. @param changedAt its ctime, which clients cannot set. */
  has(directoryId: string, changedAt: Micros, now: Micros): boolean {
    const { boot, journal } = this.#options;
    const booted = boot ? bootedBy(boot, now) : -Infinity;
    const until = Math.max(booted, journal.at, this.#gaps.get(directoryId) ?? -Infinity);
    // A clock that was set back says nothing of when it was.
    return changedAt <= until || (until > -Infinity && changedAt > now);
  }
}

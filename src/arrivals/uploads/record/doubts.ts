/**
 * Knows which files may be incomplete: those that changed before a crash of the machine, or while lines of the log were
 * lost.
 */
import { bootedBy, type UncleanBoot } from '../../../foundation/base/boot.ts';
import type { Micros } from '../../../foundation/base/clock.ts';

export interface DoubtsOptions {
  readonly boot?: UncleanBoot | undefined;
  /** When the journal began. */
  readonly journal: { readonly at: Micros };
}

export class Doubts {
  readonly #options: DoubtsOptions;
  /** Until when lines were lost, by directory. */
  readonly #gaps = new Map<string, Micros>();

  constructor(options: DoubtsOptions) {
    this.#options = options;
  }

  /** Notes that lines about the directory were lost until that time. */
  add(directoryId: string, until: Micros): void {
    this.#gaps.set(directoryId, Math.max(until, this.#gaps.get(directoryId) ?? until));
  }

  /** Until when lines about that directory were lost; undefined for none. */
  of(directoryId: string): Micros | undefined {
    return this.#gaps.get(directoryId);
  }

  /**
   * Whether an unexplained file may be incomplete.
   * @param changedAt the file's ctime, which clients cannot set.
   */
  has(directoryId: string, changedAt: Micros, now: Micros): boolean {
    const { boot, journal } = this.#options;
    const booted = boot ? bootedBy(boot, now) : -Infinity;
    const until = Math.max(booted, journal.at, this.#gaps.get(directoryId) ?? -Infinity);
    // A ctime in the future means that the clock was set back, so the file may be as old as the doubts.
    return changedAt <= until || (until > -Infinity && changedAt > now);
  }
}

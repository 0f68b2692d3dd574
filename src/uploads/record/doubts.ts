/** Which files nobody can vouch for: what was written to them before a power cut, or while lines of the log were lost. */
import { bootedBy, type UncleanBoot } from '../../boot.ts';
import type { Micros } from '../../clock.ts';

export class Doubts {
  readonly #boot: UncleanBoot | undefined;
  /** By directory: until when lines were lost. */
  readonly #gaps = new Map<string, Micros>();

  constructor(boot: UncleanBoot | undefined) {
    this.#boot = boot;
  }

  /** Lines about that directory were lost until then. */
  add(directoryId: string, until: Micros): void {
    this.#gaps.set(directoryId, Math.max(until, this.#gaps.get(directoryId) ?? until));
  }

  /** Whether a file that nothing explains may be a part of one. @param changedAt its ctime, which clients cannot set. */
  has(directoryId: string, changedAt: Micros, now: Micros): boolean {
    const booted = this.#boot ? bootedBy(this.#boot, now) : -Infinity;
    const until = Math.max(booted, this.#gaps.get(directoryId) ?? -Infinity);
    // A clock that was set back says nothing of when it was.
    return changedAt <= until || (until > -Infinity && changedAt > now);
  }
}

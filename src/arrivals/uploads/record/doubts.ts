/**
 * Knows which files may be incomplete: those that changed before a crash of the machine, or while lines of the log were
 * lost.
 */
import type { Stats } from 'node:fs';
import { bootedBy, type UncleanBoot } from '../../../foundation/base/boot.ts';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';

/** How long after a crash the first comparison with the disk may take. Until then a client may rename what the crash has left. */
const COMPARED: Micros = 60 * SECOND;

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
   * Whether an unexplained file may be incomplete: it has not been touched since, or a client has only renamed it, or set its
   * times, right after the crash.
   * @param file a client can set the mtime. `birthtimeMs` is 0 where the file system does not keep it.
   */
  has(directoryId: string, file: Pick<Stats, 'ctimeMs' | 'mtimeMs' | 'birthtimeMs'>, now: Micros): boolean {
    const { boot, journal } = this.#options;
    const booted = boot ? bootedBy(boot, now) : -Infinity;
    const until = Math.max(booted, journal.at, this.#gaps.get(directoryId) ?? -Infinity);
    const changedAt = file.ctimeMs * 1000;
    const isOlder = file.birthtimeMs > 0 && Math.max(file.birthtimeMs, file.mtimeMs) * 1000 <= booted;
    // A ctime in the future means that the clock was set back, so the file may be as old as the doubts.
    return changedAt <= until || (isOlder && changedAt <= booted + COMPARED) || (until > -Infinity && changedAt > now);
  }
}

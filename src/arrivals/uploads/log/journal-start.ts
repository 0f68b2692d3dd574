/**
 * When the journal began. Older versions kept none, so lines from before this version's first start are lost. If a file
 * changed before that time and has no row, nobody knows whether it is complete.
 *
 * `journal.begun` beside the journal holds the time in µs. It is empty from before the journal's folder is made until
 * every jail is linked to the log.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Micros } from '../../../foundation/base/clock.ts';
import { isThere } from '../../../foundation/base/files.ts';

/** Must be called before the journal's folder is made. */
export function noteFirstStart(journal: string): void {
  if (!isThere(journal)) write(journal, '');
}

export class JournalStart {
  readonly #journal: string;
  #at: Micros;

  constructor(journal: string) {
    this.#journal = journal;
    this.#at = read(journal);
  }

  /**
   * Every line after this time is in the journal. `Infinity` until all jails are linked, `-Infinity` when the time is
   * not known.
   */
  get at(): Micros {
    return this.#at;
  }

  /** Notes that all jails are linked to the log. */
  linked(now: Micros): void {
    if (this.#at !== Infinity) return;
    write(this.#journal, String(now));
    this.#at = now;
  }
}

function read(journal: string): Micros {
  const path = pathOf(journal);
  if (!isThere(path)) return -Infinity;
  const text = readFileSync(path, 'utf8');
  return text === '' ? Infinity : Number(text);
}

function write(journal: string, text: string): void {
  const fresh = `${pathOf(journal)}.new`;
  writeFileSync(fresh, text, { mode: 0o600 });
  renameSync(fresh, pathOf(journal));
}

function pathOf(journal: string): string {
  return `${journal}.begun`;
}

/**
 * When the journal began. An earlier berth kept none, so what sshd logged between its end and the first start of this one is lost: of a
 * file that changed before and is not recorded nobody knows whether it is whole.
 *
 * `journal.begun` beside the journal has that time in µs; it is empty from before the journal's folder is made until every jail
 * is linked to the log.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Micros } from '../../clock.ts';

/** Call it before the journal's folder is made. */
export function noteFirstStart(journal: string): void {
  if (!existsSync(journal)) write(journal, '');
}

export class JournalStart {
  readonly #journal: string;
  #at: Micros;

  constructor(journal: string) {
    this.#journal = journal;
    this.#at = read(journal);
  }

  /** Every line after that is in the journal: infinite until all jails are linked, minus infinite when that is not known. */
  get at(): Micros {
    return this.#at;
  }

  /** All jails are linked to the log. */
  linked(now: Micros): void {
    if (this.#at !== Infinity) return;
    write(this.#journal, String(now));
    this.#at = now;
  }
}

function read(journal: string): Micros {
  const path = pathOf(journal);
  if (!existsSync(path)) return -Infinity;
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

/** The journal's priorities (sd-daemon(3)): if standard error is the journal, a line that begins with `<N>` has priority N. */
import { fstatSync } from 'node:fs';

/** As syslog(3) numbers them. */
export const PRIORITY = { crit: 2, err: 3, warning: 4, info: 6, debug: 7 } as const;

/** Whether standard error is the journal: systemd identifies it by device and inode (systemd.exec(5), JOURNAL_STREAM). */
export function isJournal(environment: Readonly<Record<string, string | undefined>>): boolean {
  const named = environment['JOURNAL_STREAM'];
  if (named === undefined) return false;
  const { dev, ino } = fstatSync(2);
  return named === `${dev}:${ino}`;
}

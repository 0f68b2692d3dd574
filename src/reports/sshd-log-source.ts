/** Where this machine has sshd's log. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { journal } from './journal.ts';
import type { SshdLog } from './sshd-log.ts';
import { sshdLogFile } from './sshd-log-file.ts';

/** The file that scripts/lib/sshd-log keeps in a trial and in the container, or systemd's journal. */
export function sshdLogOf({ stateDir }: { readonly stateDir: string }): SshdLog {
  const folder = join(stateDir, 'sshd-log');
  return existsSync(folder) ? sshdLogFile(folder) : journal;
}

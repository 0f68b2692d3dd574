/** What the journal holds now, of all users. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Files come and go meanwhile. */
export function readJournal(folder: string): string {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names
    .map((name) => {
      try {
        return readFileSync(join(folder, name), 'utf8');
      } catch {
        return '';
      }
    })
    .join('');
}

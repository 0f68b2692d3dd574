/** Notes in the state folder when `berth backup` last succeeded here, for the metrics and `berth doctor`. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Micros } from './clock.ts';
import { errorCode } from './errors.ts';

type StateFolder = { readonly stateDir: string };

const fileIn = ({ stateDir }: StateFolder): string => join(stateDir, 'last-backup');

export function noteBackup(folder: StateFolder, at: Micros): void {
  const file = fileIn(folder);
  // With PostgreSQL, a machine may make a backup before it has a state folder.
  mkdirSync(folder.stateDir, { recursive: true });
  writeFileSync(`${file}.new`, `${at}\n`, { mode: 0o644 });
  renameSync(`${file}.new`, file);
}

/** Undefined when there was no backup. */
export function lastBackup(folder: StateFolder): Micros | undefined {
  try {
    return Number(readFileSync(fileIn(folder), 'utf8')) || undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

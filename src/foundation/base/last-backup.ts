/** Notes in the state folder when `berth backup` last succeeded here, for the metrics and `berth doctor`. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Micros } from './clock.ts';
import { errorCode } from './errors.ts';

type Place = { readonly stateDir: string };

const fileIn = ({ stateDir }: Place): string => join(stateDir, 'last-backup');

export function noteBackup(place: Place, at: Micros): void {
  const file = fileIn(place);
  // With PostgreSQL, a machine may make a backup before it has a state folder.
  mkdirSync(place.stateDir, { recursive: true });
  writeFileSync(`${file}.new`, `${at}\n`, { mode: 0o644 });
  renameSync(`${file}.new`, file);
}

/** Undefined when there was no backup. */
export function lastBackup(place: Place): Micros | undefined {
  try {
    return Number(readFileSync(fileIn(place), 'utf8')) || undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * A SQLite file that has the schema and nothing else. `test/run.ts` makes one for its run, and tests copy it: fifteen migrations take
 * longer than most tests of the API.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../src/base/config.ts';
import { openDatabase } from '../../src/db/open.ts';
import { onPostgres } from './postgres.ts';

const MADE = 'TEST_EMPTY_DATABASE';

/** Makes it in a folder, for the processes that this one starts. */
export async function makeEmptyDatabase(folder: string): Promise<void> {
  if (onPostgres) return;
  const file = join(folder, 'empty.db');
  await (await openDatabase(file)).close();
  process.env[MADE] = file;
}

/** Puts a copy where the configuration has its database. Without a run that has made one, berth makes its own. */
export function copyEmptyDatabase({ databaseFile }: Config): void {
  const made = process.env[MADE];
  if (made !== undefined) copyFileSync(made, databaseFile);
}

/**
 * A SQLite file that has the schema and nothing else. `test/run.ts` makes one for its run, and tests copy it: the migrations take
 * longer than most tests of the API.
 */
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { onPostgres } from './postgres.ts';

const MADE = 'TEST_EMPTY_DATABASE';

/** Makes it in a folder, for the processes that this one starts. */
export async function makeEmptyDatabase(folder: string): Promise<void> {
  if (onPostgres) return;
  const file = join(folder, 'empty.db');
  await (await openDatabase(file)).close();
  process.env[MADE] = file;
}

/** Makes the folder of that database, and puts a copy there unless there is one. Without a run that has made one, berth makes its own. */
export function copyEmptyDatabase({ databaseFile }: Pick<Config, 'databaseFile'>): void {
  const made = process.env[MADE];
  mkdirSync(dirname(databaseFile), { recursive: true });
  if (made !== undefined && !existsSync(databaseFile)) copyFileSync(made, databaseFile);
}

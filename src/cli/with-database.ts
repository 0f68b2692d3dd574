/** Commands that only need the database open it themselves, beside a running service, and close it when they are done. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { refuseMissing } from '../db/damage.ts';
import { type Database, openDatabase } from '../db/open.ts';
import { refuseUnfinished } from '../db/unfinished-restore.ts';
import { errorCode, errorMessage, OperatorError } from '../errors.ts';
import type { Print } from './output.ts';

export type WithDatabase = <T>(use: (database: Database) => Promise<T>) => Promise<T>;

/** What a command uses that shows rows of the database or changes some. */
export interface DatabaseCommand {
  readonly withDatabase: WithDatabase;
  readonly clock: Clock;
  readonly print: Print;
}

/** @throws {OperatorError} when the configuration is wrong or the database cannot be opened. */
export function withDatabase(config: () => Pick<Config, 'databaseFile' | 'stateDir'>): WithDatabase {
  return async (use) => {
    const settings = config();
    refuseMissing(settings);
    refuseUnfinished(settings);
    const database = await open(settings.databaseFile);
    try {
      return await use(database);
    } finally {
      await database.close();
    }
  };
}

async function open(file: string): Promise<Database> {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    return await openDatabase(file);
  } catch (error) {
    if (error instanceof OperatorError || errorCode(error) === undefined) throw error;
    throw new OperatorError(`cannot open the database ${file}: ${errorMessage(error)}`, { cause: error });
  }
}

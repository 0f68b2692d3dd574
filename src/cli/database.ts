/** Opens the database for one command, beside a running service, and turns refusals of the rules into its errors. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../foundation/base/config.ts';
import { refuseMissing } from '../foundation/db/damage.ts';
import { type Database, openDatabase } from '../foundation/db/open.ts';
import { isMissing } from '../foundation/base/database-place.ts';
import { refuseUnfinished } from '../foundation/db/unfinished-restore.ts';
import { BerthError, errorCode, errorMessage, OperatorError, ValidationError } from '../foundation/base/errors.ts';
import { messageOf } from '../foundation/base/problems.ts';

/**
 * Opens the database for as long as `use` takes.
 * @throws {OperatorError} when it cannot be opened or used now.
 */
export async function withDatabase<T>(
  config: Pick<Config, 'database' | 'stateDir'>,
  use: (database: Database) => Promise<T>,
): Promise<T> {
  refuseMissing(config);
  refuseUnfinished(config);
  const database = await open(config.database);
  try {
    return await use(database);
  } catch (error) {
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
    throw new OperatorError(
      `another process keeps ${config.database} locked (fuser ${config.database}): nothing has changed`,
      { cause: error },
    );
  } finally {
    await database.close();
  }
}

async function open(place: string): Promise<Database> {
  try {
    if (isMissing(place)) mkdirSync(dirname(place), { recursive: true, mode: 0o755 });
    return await openDatabase(place);
  } catch (error) {
    if (error instanceof OperatorError || errorCode(error) === undefined) throw error;
    throw new OperatorError(`cannot open the database ${place}: ${errorMessage(error)}`, { cause: error });
  }
}

/** @returns the result of `work`. @throws {OperatorError} with the text of the rule that refused. */
export async function sayingRefusals<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BerthError) throw new OperatorError(error.message, { cause: error });
    if (!(error instanceof ValidationError)) throw error;
    const problems = Object.entries(error.fields).map(
      ([field, wrong]) => `${field} ${wrong.map(messageOf).join(', ')}`,
    );
    throw new OperatorError(problems.join('; '), { cause: error });
  }
}

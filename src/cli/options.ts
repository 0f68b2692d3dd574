/** Options that several commands share, mainly the filters of lists. */
import { type Command, InvalidArgumentError } from 'commander';
import { UNLIMITED } from '../rules/accounts/actor.ts';
import { accountNamed } from '../rules/accounts/accounts.ts';
import { type Clock, type Micros, parseMs, SECOND } from '../foundation/base/clock.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import type { Database } from '../foundation/db/open.ts';
import { directoryNamed } from '../operating/reports/named.ts';
import type { Filter } from '../operating/reports/queries.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';

export interface FilterOptions {
  readonly directory?: string;
  readonly account?: string;
  readonly since?: Micros;
  readonly limit: number;
  readonly json?: true;
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Adds `--directory`, `--account`, `--since`, `--limit` and `--json`. */
export function withFilters(command: Command, clock: Clock): Command {
  return command
    .option('--directory <directory>', 'only this one, by its id or SFTP username')
    .option('--account <account>', 'only those of this account, by its id or name')
    .option('--since <time>', 'only entries since then: 30m, 12h, 7d, or a time such as 2026-11-20T08:00Z', (text) =>
      since(text, clock.now()),
    )
    .option('--limit <count>', 'how many to list, newest first', integer(1, 999_999), 50)
    .option('--json', 'print JSON');
}

/** Runs a query with the filter that these options describe. */
export function narrowed<T>(
  { config }: Invocation,
  { directory, account: name, ...options }: FilterOptions,
  query: (database: Database, filter: Filter) => Promise<T>,
): Promise<T> {
  return withDatabase(config(), async (database) => {
    const accountId = name === undefined ? undefined : await accountNamed(database.reads, name);
    if (directory === undefined)
      return query(database, { ...options, owner: accountId === undefined ? undefined : { accountId } });
    const owner = await directoryNamed(
      database.reads,
      directory,
      accountId === undefined ? undefined : { accountId, scope: UNLIMITED },
    );
    if (!owner) throw new OperatorError(`there is no directory ${JSON.stringify(directory)}: see berth directory list`);
    return query(database, { ...options, owner });
  });
}

/** Reads a moment as people write it: an age, or a time. */
export function since(text: string, now: Micros): Micros {
  const [, count = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const seconds = UNITS[unit];
  if (seconds !== undefined) return now - Number(count) * seconds * SECOND;
  return moment(text, 'an age such as 12h, or a time such as 2026-11-20');
}

/** Reads a time with or without hours. @param what the valid values, for the message. */
export function moment(text: string, what: string): Micros {
  const at = parseMs(text);
  if (Number.isNaN(at)) throw new InvalidArgumentError(`It must be ${what}.`);
  return at * 1000;
}

/** Collects all values of an option that may be given several times. */
export function collected(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** Reads a whole number. */
export function integer(lowest: number, highest: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= lowest && value <= highest) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${lowest} to ${highest}.`);
  };
}

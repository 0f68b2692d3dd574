/**
 * The limits of an API key besides its role, fixed when the key is created: read-only, or only certain directories. A key
 * that is limited to directories sees nothing else of the account.
 */
import type { ApiKeysTable } from '../../foundation/db/schema.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import { BerthError } from '../../foundation/base/errors.ts';

export interface Scope {
  readonly isReadOnly: boolean;
  /** The ids of the directories that the key is limited to; undefined for the whole account. */
  readonly directories: ReadonlySet<string> | undefined;
}

/** The scope of users, operators, and keys without limits. */
export const UNLIMITED: Scope = { isReadOnly: false, directories: undefined };

type Columns = Record<'expires_at', Micros | null> & Record<'directories', string | null> & Record<'read_only', 0 | 1>;

export const SCOPE_COLUMNS = [
  'expires_at',
  'read_only',
  'directories',
] as const satisfies readonly (keyof ApiKeysTable)[];

export function scopeOf({ read_only, directories }: Omit<Columns, 'expires_at'>): Scope {
  if (read_only === 0 && directories === null) return UNLIMITED;
  const ids = directories === null ? undefined : new Set(JSON.parse(directories) as string[]);
  return { isReadOnly: read_only === 1, directories: ids };
}

/** @throws {BerthError} `not_authorized` for a read-only key. */
export function requireChanges({ isReadOnly }: Scope): void {
  if (isReadOnly) throw new BerthError('not_authorized', 'This API key is read-only');
}

/** @throws {BerthError} `directory_not_found` for a directory outside of the key's limits. */
export function requireDirectory({ directories }: Scope, id: string): void {
  if (directories && !directories.has(id)) throw new BerthError('directory_not_found', 'Directory not found');
}

/** @throws {BerthError} `not_authorized` for a key that is limited to directories. */
export function requireWholeAccount({ directories }: Scope): void {
  if (directories) throw new BerthError('not_authorized', 'This API key is for named directories only');
}

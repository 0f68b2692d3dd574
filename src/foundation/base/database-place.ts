/** Where a database is: a file for SQLite, or a URL for PostgreSQL. */
import { statSync } from 'node:fs';
import { isThere } from './files.ts';

export function isPostgresUrl(place: string): boolean {
  return /^postgres(ql)?:/.test(place);
}

/** For messages and logs: the place, without a URL's password. */
export function shownPlace(place: string): string {
  if (!isPostgresUrl(place)) return place;
  // Greedy up to the last @: a password may hold an @ that should have been encoded.
  return place.replace(/^(\w+:\/\/[^:@/]*):.*@/, '$1@').replace(/([?&]password=)[^&]*/, '$1…');
}

/** Whether there is no such file yet. False for PostgreSQL, where only the server knows. */
export function isMissing(place: string): boolean {
  return !isPostgresUrl(place) && !isThere(place);
}

/** Whether the file is missing or empty. */
export function isBlank(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

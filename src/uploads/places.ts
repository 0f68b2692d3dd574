/**
 * Which directory a username stands for, remembered: the watcher names users, thousands of times a second. Usernames are
 * never used again, so nothing that is remembered can become wrong.
 */
import type { DirectoryPlace, UploadQueries } from './queries.ts';

/** Beyond it the memory starts over. */
const REMEMBERED = 20_000;

/** Calls `use` with the user's directory; not at all when there is none. */
export type WithPlace = (username: string, use: (place: DirectoryPlace) => void) => Promise<void>;

export function createPlaces({ directoryOf }: Pick<UploadQueries, 'directoryOf'>): WithPlace {
  const known = new Map<string, DirectoryPlace>();
  return async (username, use) => {
    const place = known.get(username) ?? (await directoryOf(username));
    if (!place) return;
    if (known.size >= REMEMBERED) known.clear();
    known.set(username, place);
    use(place);
  };
}

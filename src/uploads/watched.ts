/**
 * Who is watched. Up to a limit, everybody. With more directories than that, only those whose users have been here most
 * recently: changes by SFTP come through sessions, which the transfer log announces, and the rounds of scans cover the
 * others (`rounds.ts`).
 */
import type { Watcher } from './watcher.ts';

export interface Watched extends Pick<Watcher, 'remove'> {
  /** A round of scans begins, over that many directories. */
  begin(directories: number): void;
  /** A directory that a round has come to, or a new one: watched when there is room. */
  add(username: string): void;
  /** A session has begun: its directory is watched, if need be in place of the one whose session was longest ago. */
  use(username: string): void;
  /** Whether everybody is watched. */
  complete(): boolean;
}

export function createWatched(watcher: Pick<Watcher, 'add' | 'remove' | 'complete'>, limit: number): Watched {
  /** The longest unused first. */
  const users = new Set<string>();
  let isCrowded = false;
  let someoneIsLeftOut = false;

  function watch(username: string): void {
    users.add(username);
    watcher.add(username);
  }

  function drop(username: string): void {
    if (users.delete(username)) watcher.remove(username);
  }

  return {
    begin(directories) {
      isCrowded = directories > limit;
      someoneIsLeftOut = false;
    },
    add(username) {
      if (users.has(username)) return;
      if (isCrowded || users.size >= limit || !watcher.complete()) someoneIsLeftOut = true;
      else watch(username);
    },
    use(username) {
      if (users.delete(username)) {
        users.add(username); // the last to go
        return;
      }
      const [oldest] = users;
      if (users.size >= limit && oldest !== undefined) {
        drop(oldest);
        someoneIsLeftOut = true;
      }
      watch(username);
    },
    remove: drop,
    complete: () => !someoneIsLeftOut && watcher.complete(),
  };
}

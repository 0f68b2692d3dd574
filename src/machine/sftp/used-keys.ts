/** Notes when each public key was last used: from the sessions that the history reports, and the keys that sshd was offered for them. */
import { createLastUsed, type LastUsedOptions } from '../../rules/keys/last-used.ts';
import { USED_PUBLIC_KEYS } from '../../rules/directories/public-keys.ts';
import type { Transfer } from '../../rules/history/transfers.ts';
import { offeredKeys } from './offered-keys.ts';
import type { Paths } from './paths.ts';

export interface UsedKeysOptions extends Omit<LastUsedOptions, 'of'> {
  readonly paths: Pick<Paths, 'offeredKeys' | 'sessions'>;
}

export interface UsedPublicKeys {
  /** Takes the rows that a commit has added to the history. */
  committed(rows: readonly Transfer[]): void;
  /** Writes what is noted. */
  close(): Promise<void>;
}

export function startUsedKeys({ paths, ...options }: UsedKeysOptions): UsedPublicKeys {
  const lastUsed = createLastUsed({ ...options, of: USED_PUBLIC_KEYS });
  return {
    committed(rows) {
      for (const { event, directory_id: id, username } of rows) {
        if (event !== 'session-opened') continue;
        for (const { fingerprint, at } of offeredKeys(paths, username)) lastUsed.note(`${id} ${fingerprint}`, at);
      }
    },
    close: lastUsed.close,
  };
}

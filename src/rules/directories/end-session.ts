/** Lists the live SFTP sessions of a directory, and ends one. Its client may log in again. */
import type { Store } from '../../foundation/context.ts';
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { insertAudit } from '../history/audit.ts';
import { lockedDirectory, type Target } from './target.ts';

export interface LiveSession {
  /** Never used for another session, even after this one has ended. */
  readonly name: string;
  /** The client's address. */
  readonly address: string;
  /** When the client logged in. */
  readonly since: Micros;
}

/** The sessions on this machine. */
export interface LiveSessions {
  /** Users who may have sessions; some of these may have ended just now. */
  usernames(): readonly string[];
  of(username: string): readonly LiveSession[];
  /** The session has ended when this resolves. Repeatable. */
  end(username: string, name: string): Promise<void>;
}

/** Does nothing if the session has ended already. @throws {BerthError} `directory_not_found`. */
export async function endSession(
  { database, clock, sessions }: Store & { readonly sessions: LiveSessions },
  target: Target,
  name: string,
): Promise<void> {
  const directory = await database.db.transaction().execute(async (tx) => {
    const found = await lockedDirectory(tx, target);
    const session = sessions.of(found.sftp_username).find((each) => each.name === name);
    if (!session) return undefined;
    const from = `${session.address} since ${formatMicros(session.since)}`;
    const details = { session: { from, to: null } };
    await insertAudit(tx, target, { at: clock.now(), action: 'update', directory: found, details });
    return found;
  });
  if (directory) await sessions.end(directory.sftp_username, name);
}

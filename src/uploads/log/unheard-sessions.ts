/**
 * Sessions of which the log has not told all: those that began before the log was read, those that died without a word,
 * and those whose lines were dropped. The kernel says what they are and what they write.
 */
import type { Clock } from '../../clock.ts';
import { type FilesRoot, pathOf } from '../file-path.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { filesHeldBy, isAlive, isJailedWith, processesFrom, servesSftp, uidOf } from '../processes.ts';
import type { Ledger } from '../record/ledger.ts';
import type { Interpreter } from './interpret.ts';
import { Session, type Sessions } from './sessions.ts';

export interface UnheardOptions {
  readonly clock: Clock;
  readonly filesRoot: FilesRoot;
  readonly jails: Pick<JailQueries, 'byUid'>;
  readonly ledger: Pick<Ledger, 'release'>;
  readonly sessions: Sessions;
  readonly interpreter: Interpreter;
  /** Resolves when everything has been followed that sshd had logged of the directory before the call. */
  caughtUp(directoryId: string): Promise<void>;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  /** The client's address of a session that was there before, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Whether lines of that directory's sessions are still to be followed, which tell of them. */
  readonly isBehind?: ((jail: Jail) => boolean) | undefined;
  /** A session of that directory was there. */
  live(jail: Jail): void;
  /** Lines about that directory were lost. */
  lost(jail: Jail): void;
}

export class UnheardSessions {
  readonly #options: UnheardOptions;

  constructor(options: UnheardOptions) {
    this.#options = options;
  }

  /** Takes up the sessions that are live already. */
  async adoptAll(): Promise<void> {
    const { firstUid, isBehind, jails } = this.#options;
    for (const { pid, uid } of await processesFrom(firstUid)) {
      const jail = isBehind && (await jails.byUid(uid));
      if (!jail || !isBehind(jail)) await this.adopt(pid, uid);
    }
  }

  /** Takes up a process when it serves a session of ours. */
  async adopt(pid: number, uid = uidOf(pid)): Promise<Session | undefined> {
    const { firstUid, sessions, jails, addressOf, filesRoot, live, interpreter } = this.#options;
    if (uid === undefined || uid < firstUid || sessions.get(pid)) return undefined;
    const jail = await jails.byUid(uid);
    if (!jail) return undefined;
    const username = jail.sftp_username;
    const address = addressOf(username, pid);
    // Another berth's, which has given out the same UID. One of ours whose monitor was killed is in our jail still.
    if (address === undefined && !isJailedWith(pid, filesRoot(username))) return undefined;
    live(jail);
    const serves = address !== undefined && servesSftp(pid);
    const session = new Session(jail, { pid, address: address ?? '' }, { openedAt: undefined, serves });
    interpreter.adopt(session, writtenBy(session));
    return session;
  }

  /** After lines were dropped: the kernel says who writes what, and a scan what changed. */
  resume(directoryId: string): void {
    const { sessions, ledger, interpreter, lost } = this.#options;
    for (const pid of sessions.pidsOf(directoryId)) {
      const session = sessions.get(pid);
      if (!session) continue;
      for (const handle of session.all()) ledger.release(handle, undefined);
      interpreter.adopt(new Session(session.jail, session.by, session), writtenBy(session));
      lost(session.jail);
    }
  }

  /** Ends sessions whose process died without a word. What it said before may still wait to be followed. */
  async sweep(): Promise<void> {
    const { sessions, caughtUp, interpreter, clock, isBehind } = this.#options;
    const dead = sessions.all().filter(({ by, jail }) => !isAlive(by.pid) && !isBehind?.(jail));
    await Promise.all([...new Set(dead.map(({ jail }) => jail.id))].map((id) => caughtUp(id)));
    for (const session of dead) {
      const { pid } = session.by;
      if (sessions.get(pid) === session) interpreter.end(pid, clock.now());
    }
  }
}

/** The files below its jail that the session's process writes. */
function writtenBy({ by, jail }: Session) {
  const marker = `/${jail.sftp_username}/files/`;
  return filesHeldBy(by.pid).flatMap(({ inode, path }) => {
    const start = path.indexOf(marker);
    return start === -1 ? [] : [{ inode, path: pathOf(path.subarray(start + marker.length)) }];
  });
}

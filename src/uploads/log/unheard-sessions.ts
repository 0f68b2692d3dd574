/**
 * Sessions of which the journal has not told all: those that it does not know, those that died without a word, and those whose
 * lines were lost. The kernel says what they are and what they write.
 */
import type { Clock } from '../../clock.ts';
import { type FilesRoot, pathOf } from '../file-path.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { filesHeldBy, isAlive, isJailedWith, processesFrom, servesSftp, startTimeOf, uidOf } from '../processes.ts';
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
  caughtUp(jail: Jail): Promise<void>;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  /** The client's address of a session that was there before, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Whether records of that directory's sessions are still to be followed, which tell of them. */
  isRestoring(jail: Jail): boolean;
  /** Whether every line was kept that was written since the process before this one. */
  isGapless(): boolean;
  /** A session of that directory was there. */
  live(jail: Jail): void;
  /** The disk has to tell what happened in that directory. */
  lost(jail: Jail): void;
}

export class UnheardSessions {
  readonly #options: UnheardOptions;

  constructor(options: UnheardOptions) {
    this.#options = options;
  }

  /** Takes up the sessions that are live already and that no journal tells of. */
  async adoptAll(): Promise<void> {
    const { firstUid, isRestoring, jails } = this.#options;
    for (const { pid, uid } of await processesFrom(firstUid)) {
      const jail = await jails.byUid(uid);
      if (jail && !isRestoring(jail)) await this.adopt(pid, uid);
    }
  }

  /** Takes up a process when it serves a session of ours. */
  async adopt(pid: number, uid = uidOf(pid)): Promise<void> {
    const { firstUid, sessions, jails, addressOf, filesRoot, live, interpreter } = this.#options;
    if (uid === undefined || uid < firstUid) return;
    const jail = await jails.byUid(uid);
    if (!jail || sessions.get(jail.id, pid)) return;
    const username = jail.sftp_username;
    const address = addressOf(username, pid);
    // Another berth's, which has given out the same UID. One of ours whose monitor was killed is in our jail still.
    if (address === undefined && !isJailedWith(pid, filesRoot(username))) return;
    live(jail);
    const serves = address !== undefined && servesSftp(pid);
    const session = new Session(jail, { pid, address: address ?? '' }, { openedAt: undefined, serves });
    interpreter.adopt(session, writtenBy(session));
  }

  /** After lines were lost: the kernel says who writes what, and a scan what changed. */
  resume(directoryId: string): void {
    const { sessions, ledger, interpreter, lost } = this.#options;
    for (const session of sessions.of(directoryId)) {
      if (!isAliveStill(session)) continue;
      for (const handle of session.all()) ledger.release(handle, undefined);
      interpreter.adopt(new Session(session.jail, session.by, session), writtenBy(session));
      lost(session.jail);
    }
  }

  /** The journal of an earlier process has been followed: handles may have been closed since that nobody has heard of. */
  async check(jail: Jail): Promise<void> {
    const { caughtUp, clock, interpreter, isGapless, lost, sessions } = this.#options;
    const before = sessions.of(jail.id).map((session) => ({ session, handles: session.all() }));
    if (before.length === 0) return;
    await caughtUp(jail);
    for (const { session, handles } of before) {
      if (isAliveStill(session)) interpreter.compare(session, handles, writtenBy(session), isGapless());
      else if (sessions.get(jail.id, session.by.pid) === session) {
        interpreter.end(jail, session.by.pid, clock.now(), false);
      }
    }
    if (!isGapless()) lost(jail);
  }

  /** Ends sessions whose process died without a word. What it said before may still wait to be followed. */
  async sweep(): Promise<void> {
    const { sessions, caughtUp, interpreter, clock, isRestoring } = this.#options;
    const dead = sessions.all().filter((session) => !isRestoring(session.jail) && !isAliveStill(session));
    await Promise.all([...new Set(dead.map(({ jail }) => jail))].map((jail) => caughtUp(jail)));
    for (const session of dead) {
      const { jail, by } = session;
      if (sessions.get(jail.id, by.pid) === session) interpreter.end(jail, by.pid, clock.now(), false);
    }
  }
}

/** The number may be another process's by now. */
function isAliveStill({ by, born }: Session): boolean {
  return born === undefined ? isAlive(by.pid) : startTimeOf(by.pid) === born;
}

/** The files below its jail that the session's process writes. */
function writtenBy({ by, jail }: Session) {
  const marker = `/${jail.sftp_username}/files/`;
  return filesHeldBy(by.pid).flatMap(({ inode, path }) => {
    const start = path.indexOf(marker);
    return start === -1 ? [] : [{ inode, path: pathOf(path.subarray(start + marker.length)) }];
  });
}

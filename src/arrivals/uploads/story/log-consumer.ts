/** Follows the journal: hands each record to the story of its directory, in order, and keeps track of live sessions. */
import type { Clock, Micros } from '../../../foundation/base/clock.ts';
import type { Log } from '../../../foundation/base/log.ts';
import type { FilesRoot } from '../file-path.ts';
import type { Jail, JailQueries } from '../jails.ts';
import type { RecordConsumer } from '../log/journal-reader.ts';
import type { LineRecord } from '../log/journal-record.ts';
import { isAlive, isJailedWith, pathsHeldBy, processesFrom, servesSftp, startTimeOf, uidOf } from '../processes.ts';
import type { Doubts } from '../record/doubts.ts';
import { LOG_LAG } from '../record/file-stat.ts';
import type { Recorder } from './recorder.ts';
import type { KeptSession, SessionOf } from './sessions.ts';
import type { Line } from './story.ts';

/** How much work of one directory may be pending before its records are read slowly. */
const BACKLOG = 500;

export interface LogConsumerOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly filesRoot: FilesRoot;
  /** Queries that retry until the database answers. */
  readonly jails: Pick<JailQueries, 'byUsername' | 'byUid'>;
  readonly recorder: Recorder;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  /**
   * Resolves with true once every line that sshd logged about the directory before the call has been interpreted, and
   * with false when that takes too long.
   */
  interpreted(jail: Jail): Promise<boolean>;
  /** The client's address of a session that was live before. Undefined when the session is not this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Whether an earlier process's records of the user's sessions have yet to be followed. */
  isRestoring(username: string): boolean;
  /** The directory has a live session. */
  live(jail: Jail): void;
  /** A session of the directory is over. */
  ended(jail: Jail): void;
  /** Remembers until when lines of a directory were lost. */
  readonly doubts: Doubts;
  compare(directoryId: string): void;
}

export interface LogConsumer extends RecordConsumer {
  /** Adopts live sessions that no journal mentions. */
  adoptAll(): Promise<void>;
  /** Ends sessions whose process died without a line. */
  sweep(): Promise<void>;
}

export function createLogConsumer(options: LogConsumerOptions): LogConsumer {
  const { clock, compare, doubts, filesRoot, interpreted, jails, live, log, recorder } = options;

  const has = ({ id }: Jail, pid: number): boolean => recorder.known(id)?.has(pid) ?? false;
  const sessionsOf = (jail: Jail): SessionOf[] =>
    (recorder.known(jail.id)?.sessions() ?? []).map(({ by, openedAt, born }) => ({ jail, by, openedAt, born }));

  function follow(jail: Jail, record: LineRecord, isRepeated: boolean): Promise<void> | undefined {
    const { at, pid, event, born } = record;
    if (isRepeated) recorder.repeated(at);
    if (event.kind === 'session-opened') {
      live(jail);
      recorder.storyOf(jail).begin({ by: { pid, address: event.address }, openedAt: at, born }, at);
      return undefined;
    }
    if (!has(jail, pid)) return adoptAndTell(jail, record, isRepeated);
    recorder.add(jail, lineOf(record, clock.now(), isRepeated));
    if (event.kind === 'session-closed') options.ended(jail);
    return undefined;
  }

  /**
   * Adds a line of a process that has written none before: its session began before the journal, and is adopted first.
   */
  async function adoptAndTell(jail: Jail, record: LineRecord, isRepeated: boolean): Promise<void> {
    const { pid, address } = record;
    await adopt(pid, uidOf(pid));
    // The process has ended since.
    if (!has(jail, pid)) {
      recorder.storyOf(jail).begin({ by: { pid, address }, openedAt: undefined, born: undefined }, record.at);
    }
    recorder.add(jail, lineOf(record, clock.now(), isRepeated));
  }

  async function adopt(pid: number, uid: number | undefined): Promise<void> {
    if (uid === undefined || uid < options.firstUid) return;
    const jail = await jails.byUid(uid);
    if (!jail || has(jail, pid)) return;
    const username = jail.sftp_username;
    const address = options.addressOf(username, pid);
    // The session may belong to another berth that gave out the same UID. A session of this berth whose monitor process
    // was killed is still in its jail.
    if (address === undefined && !isJailedWith(pid, filesRoot(username))) return;
    // sshd's own process for the session has the same UID.
    if (!servesSftp(pid)) return;
    live(jail);
    const session = { by: { pid, address: address ?? '' }, openedAt: undefined, born: startTimeOf(pid) };
    recorder.storyOf(jail).begin(session, clock.now(), pathsHeldBy(pid, jail.sftp_username));
  }

  function endDead(session: SessionOf): void {
    const { jail, by } = session;
    const story = recorder.known(jail.id);
    if (story?.isLive(session)) story.end(by.pid, clock.now(), 'killed');
    options.ended(jail);
  }

  /**
   * Checks a directory's sessions once the records of an earlier process have been followed: sessions may have ended,
   * and handles may have been closed, without a line.
   */
  async function check(jail: Jail): Promise<void> {
    const sessions = sessionsOf(jail);
    if (sessions.length === 0) return;
    // A session may end while its lines are awaited. Then its last lines come later.
    const checks = sessions.map((session) => {
      if (!isAlive(session.by.pid, session.born)) return () => endDead(session);
      const { pid } = session.by;
      const compared = recorder.storyOf(jail).compareHandles(pid, pathsHeldBy(pid, jail.sftp_username));
      return () => compared(pathsHeldBy(pid, jail.sftp_username), clock.now());
    });
    await interpreted(jail);
    for (const complete of checks) complete();
    // If that process was killed, lines may have been lost.
    compare(jail.id);
  }

  return {
    jailOf: (user) => jails.byUsername(user),
    follow,
    restore(jail, { state, doubtedUntil }) {
      if (doubtedUntil !== undefined) doubts.add(jail.id, doubtedUntil);
      if (!state) return;
      live(jail);
      recorder.storyOf(jail).restore(state as readonly KeptSession[]);
    },
    restored: (jail) =>
      check(jail).catch((error: unknown) => log.warn({ err: error }, 'cannot look at the handles of sessions')),
    lost(jail, until) {
      log.warn(
        { username: jail.sftp_username },
        "lines of sshd's log were lost: comparing the directory with the disk",
      );
      for (const session of sessionsOf(jail)) {
        if (isAlive(session.by.pid, session.born))
          recorder.storyOf(jail).begin(session, clock.now(), pathsHeldBy(session.by.pid, jail.sftp_username));
      }
      doubts.add(jail.id, until);
      compare(jail.id);
    },
    isBusy: (id) => recorder.isBehind(BACKLOG, id),
    isDecided: (id, isUrgent) => recorder.isDecided(id, isUrgent === true),
    known(jail) {
      const kept = recorder.known(jail.id)?.kept() ?? [];
      const doubtedUntil = doubts.of(jail.id);
      if (kept.length === 0 && doubtedUntil === undefined) return undefined;
      return { ...(kept.length > 0 && { state: kept }), doubtedUntil };
    },
    failed: (error) => log.error({ err: error }, 'cannot follow a line of the transfer log'),

    async adoptAll() {
      for (const { pid, uid } of await processesFrom(options.firstUid)) {
        const jail = await jails.byUid(uid);
        if (jail && !options.isRestoring(jail.sftp_username)) await adopt(pid, uid);
      }
    },
    async sweep() {
      const isOver = (session: SessionOf): boolean =>
        !options.isRestoring(session.jail.sftp_username) && !isAlive(session.by.pid, session.born);
      const dead = recorder.sessions().filter(isOver);
      await Promise.all(dead.map(async (session) => (await interpreted(session.jail)) && endDead(session)));
    },
  };
}

/** @param isRepeated whether an earlier process may have followed the record. */
export function lineOf(
  { at, pid, event, seen, held, alike, refused }: LineRecord,
  now: Micros,
  isRepeated: boolean,
): Line {
  const isFresh = !isRepeated && Math.abs(now - at) < LOG_LAG;
  return { at, pid, event, seen, held, alike, refused, isFresh };
}

/**
 * Follows the transfer log: raw messages in, changes out, in the order in which sshd logged them. Keeps track of the
 * sessions on the way, those that were there before the log was and those that died without a word included.
 */
import type { Clock, Micros } from '../clock.ts';
import type { Log } from '../log.ts';
import { lstatBeneath } from '../beneath.ts';
import { turns } from './turns.ts';
import type { FilesRoot } from './batch.ts';
import type { Change, SessionNote } from './change.ts';
import { createInterpreter, type Interpreter } from './interpret.ts';
import { type LogEvent, type LogMessage, readMessage } from './log-line.ts';
import type { UploadQueries } from './queries.ts';
import type { RawMessage } from './transfer-log-worker.ts';
import { isAlive, isJailedWith, processesFrom, servesSftp, uidOf, writesInode, writtenPaths } from './writers.ts';

/** How often dead sessions are looked for, in ms. One counts as dead when two looks agree and the log is quiet. */
const SWEEP = 5000;

export interface FollowOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'directoryOf' | 'directoryOfUid'>;
  /** A session of that user has begun, or was there. */
  live(username: string): void;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  emit(changes: readonly Change[]): void;
  /** Whether a message is one of berth's own marks. */
  isMark(text: string): boolean;
  /** Something for the history. */
  note(note: SessionNote): void;
  /** The client's address of a session that was there before, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  unclear(directoryId: string, username: string, event: LogEvent & { kind: 'unclear' }, pid: number, at: Micros): void;
}

export interface Follower {
  follow(messages: readonly RawMessage[]): void;
  /** Takes up the sessions that are live already. */
  adoptSessions(): Promise<void>;
  isWritten: Interpreter['isWritten'];
  isOpen: Interpreter['isOpen'];
  /** How many sessions are live. */
  sessions(): number;
  /** Whether that process serves a session of the directory. */
  isLive(directoryId: string, pid: number): boolean;
  /** A live session of the directory, if there is one. */
  sessionOf(directoryId: string): number | undefined;
  close(): Promise<void>;
}

export function createFollower(options: FollowOptions): Follower {
  const { queries, log, clock } = options;
  const interpreter = createInterpreter({
    writesInode,
    isAlive,
    note: options.note,
    holds(session, path) {
      const stats = lstatBeneath(options.filesRoot(session.username), path);
      return stats !== undefined && writesInode(session.pid, stats.ino);
    },
    unclear(session, event, at) {
      options.unclear(session.directoryId, session.username, event, session.pid, at);
    },
  });
  let queue: RawMessage[] = [];
  let running: Promise<void> | undefined;
  const suspects = new Set<number>();

  async function run(): Promise<void> {
    const breath = turns();
    while (queue.length > 0) {
      const messages = queue;
      queue = [];
      const changes: Change[] = [];
      for (const raw of messages) {
        try {
          changes.push(...(await read(raw)));
        } catch (error) {
          log.error({ err: error }, 'cannot follow a line of the transfer log');
        }
        await breath();
      }
      if (changes.length > 0) options.emit(changes);
    }
    running = undefined;
  }

  async function read({ at, text }: RawMessage): Promise<Change[]> {
    if (options.isMark(text)) return [];
    const message = readMessage(text);
    if (!message) {
      log.debug({ text }, 'the transfer log says something unknown');
      return [];
    }
    return interpreter.interpret(message, at, await directoryFor(message));
  }

  async function directoryFor({ pid, event }: LogMessage): Promise<string | undefined> {
    if (event.kind === 'session-opened') {
      const directory = await queries.directoryOf(event.username);
      if (directory) options.live(event.username);
      return directory?.id;
    }
    if (!interpreter.sessions.get(pid)) await adopt(pid, uidOf(pid));
    return undefined;
  }

  async function adopt(pid: number, uid: number | undefined): Promise<void> {
    if (uid === undefined || uid < options.firstUid || interpreter.sessions.get(pid)) return;
    const directory = await queries.directoryOfUid(uid);
    if (!directory) return;
    const username = directory.sftp_username;
    const address = options.addressOf(username, pid);
    // Another berth's, which has given out the same UID. One of ours whose monitor was killed is in our jail still.
    if (address === undefined && !isJailedWith(pid, options.filesRoot(username))) return;
    options.live(username);
    interpreter.adopt(
      {
        pid,
        directoryId: directory.id,
        username,
        address: address ?? '',
        openedAt: undefined,
        serves: address !== undefined && servesSftp(pid),
        unanswered: undefined,
        moved: [],
      },
      writtenPaths(pid, `/${username}/files/`),
    );
  }

  function sweep(): void {
    if (running) return;
    for (const { pid } of interpreter.sessions.all()) {
      if (isAlive(pid)) suspects.delete(pid);
      else if (suspects.delete(pid)) options.emit(interpreter.end(pid, clock.now()));
      else suspects.add(pid);
    }
  }

  const timer = setInterval(sweep, SWEEP).unref();
  return {
    follow(messages) {
      queue = queue.concat(messages);
      running ??= run();
    },
    async adoptSessions() {
      for (const { pid, uid } of await processesFrom(options.firstUid)) await adopt(pid, uid);
    },
    isWritten: interpreter.isWritten,
    isOpen: interpreter.isOpen,
    sessions: () => interpreter.sessions.serving(),
    isLive: (directoryId, pid) => interpreter.sessions.pidsOf(directoryId).has(pid),
    sessionOf: (directoryId) => interpreter.sessions.pidsOf(directoryId).values().next().value,
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}

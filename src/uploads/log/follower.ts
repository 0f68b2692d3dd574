/**
 * Follows the transfer log: lines in, evidence out, in the order in which sshd logged them. Keeps track of the sessions
 * on the way, those that were there before the log was and those that died without a word included.
 */
import { setTimeout } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../clock.ts';
import { yielder } from '../../event-loop.ts';
import type { Log } from '../../log.ts';
import type { HeldFiles } from '../disk/held-files.ts';
import { type FilesRoot, pathOf } from '../file-path.ts';
import type { UploadQueries } from '../queries.ts';
import type { Ledger, Place } from '../record/ledger.ts';
import type { Interpreter } from './interpret.ts';
import { Lane, TURN } from './lanes.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import { isAlive, isJailedWith, processesFrom, servesSftp, uidOf } from './processes.ts';
import { Session, type Sessions } from './sessions.ts';
import type { Line } from './transfer-log-worker.ts';
import type { WriteBarrier } from './write-barrier.ts';

/** Looks of one directory on their way to the database beyond which its lines wait, and for how long, in ms. */
const BACKLOG = 500;
const BACKLOG_PAUSE = 5;

/** How long a process that is none of ours is known as such, in ms. */
const STRANGERS = { max: 1000, ttl: 10_000 };

export interface FollowerOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly filesRoot: FilesRoot;
  readonly queries: Pick<UploadQueries, 'directoryOf' | 'directoryOfUid'>;
  readonly ledger: Pick<Ledger, 'pending' | 'release'>;
  readonly sessions: Sessions;
  readonly interpreter: Interpreter;
  readonly heldFiles: HeldFiles;
  readonly barrier: WriteBarrier;
  /** The lowest UID that a directory may have. */
  readonly firstUid: number;
  /** The client's address of a session that was there before, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** A session of that user has begun, or was there. */
  live(username: string): void;
  /** Lines about that directory were lost. */
  lost(place: Place): void;
}

export function createFollower(options: FollowerOptions) {
  const { queries, sessions, interpreter, log } = options;
  const lanes = new Map<string, Lane>();
  const inTurn = new Set<Lane>();
  const strangers = new LRUCache<number, true>(STRANGERS);
  const suspects = new Set<number>();
  let running: Promise<void> | undefined;

  function laneOf(key: string): Lane {
    let lane = lanes.get(key);
    if (!lane) {
      lane = new Lane(key);
      lanes.set(key, lane);
    }
    inTurn.add(lane);
    return lane;
  }

  function keyOf(pid: number): string {
    return sessions.get(pid)?.place.id ?? `process ${pid}`;
  }

  async function run(): Promise<void> {
    await Promise.resolve(); // so that it has begun before it ends
    const pause = yielder();
    for (const lane of inTurn) {
      inTurn.delete(lane);
      // Looks that wait for the lane are among those: it must not wait for them.
      if (options.ledger.pending(lane.key) > BACKLOG && !lane.isAwaited) {
        void setTimeout(BACKLOG_PAUSE, undefined, { ref: false }).then(() => goOn(lane));
        continue;
      }
      await turn(lane, pause);
      if (!lane.isEmpty) inTurn.add(lane);
      else if (lane.hasLost) resume(lane);
      else if (lanes.get(lane.key) === lane) lanes.delete(lane.key);
    }
    running = undefined;
  }

  function goOn(lane: Lane): void {
    if (lane.isEmpty) return;
    inTurn.add(lane);
    running ??= run();
  }

  async function turn(lane: Lane, pause: () => Promise<void> | undefined): Promise<void> {
    for (let left = TURN; left > 0; left -= 1) {
      const line = lane.next();
      if (!line) return;
      try {
        const waiting = follow(line, lane);
        if (waiting) await waiting;
      } catch (error) {
        log.error({ err: error }, 'cannot follow a line of the transfer log');
      }
      const rest = pause();
      if (rest) await rest;
    }
  }

  function follow({ at, pid, text }: Line, lane: Lane): Promise<void> | undefined {
    const event = readEvent(text);
    if (event.kind === 'session-closed') interpreter.end(pid, at);
    else if (event.kind === 'session-opened') return begin(pid, event, at).then(() => joinLane(pid, lane));
    else {
      const session = sessions.get(pid);
      if (session) interpreter.interpret(session, event, at);
      else if (!strangers.has(pid)) {
        return meet(pid, event, at).then(() => joinLane(pid, lane));
      }
    }
    return undefined;
  }

  /** A process of which nothing was heard before: a session that began before this process, or none of ours. */
  async function meet(pid: number, event: LogEvent, at: number): Promise<void> {
    const adopted = await adopt(pid, uidOf(pid));
    if (adopted) interpreter.interpret(adopted, event, at);
    else strangers.set(pid, true);
  }

  async function begin(pid: number, { username, address }: { username: string; address: string }, at: number) {
    interpreter.end(pid, at); // an earlier process of that number died without a word
    strangers.delete(pid);
    const place = await queries.directoryOf(username);
    if (!place) return;
    options.live(username);
    interpreter.begin(pid, address, place, at);
  }

  /** What else the process said goes to its directory's lane. */
  function joinLane(pid: number, lane: Lane): void {
    const key = keyOf(pid);
    if (key !== lane.key) lane.drainTo(laneOf(key));
  }

  async function adopt(pid: number, uid: number | undefined): Promise<Session | undefined> {
    if (uid === undefined || uid < options.firstUid || sessions.get(pid)) return undefined;
    const place = await queries.directoryOfUid(uid);
    if (!place) return undefined;
    const username = place.sftp_username;
    const address = options.addressOf(username, pid);
    // Another berth's, which has given out the same UID. One of ours whose monitor was killed is in our jail still.
    if (address === undefined && !isJailedWith(pid, options.filesRoot(username))) return undefined;
    options.live(username);
    const serves = address !== undefined && servesSftp(pid);
    const session = new Session(place, { pid, address: address ?? '' }, { openedAt: undefined, serves });
    interpreter.adopt(session, writtenBy(session));
    return session;
  }

  function writtenBy({ pid, place }: Session) {
    const marker = `/${place.sftp_username}/files/`;
    return options.heldFiles.heldBy(pid).flatMap(({ inode, path }) => {
      const start = path.indexOf(marker);
      return start === -1 ? [] : [{ inode, path: pathOf(path.subarray(start + marker.length)) }];
    });
  }

  /** Of what the lane dropped nothing is known: the kernel says who writes, and a scan what changed. */
  function resume(lane: Lane): void {
    lane.hasLost = false;
    for (const pid of sessions.pidsOf(lane.key)) {
      const session = sessions.get(pid);
      if (!session) continue;
      for (const handle of session.all()) options.ledger.release(handle, undefined);
      const { openedAt, serves } = session;
      interpreter.adopt(new Session(session.place, session.by, { openedAt, serves }), writtenBy(session));
      options.lost(session.place);
    }
  }

  return {
    follow(lines: readonly Line[]): void {
      for (const line of lines) {
        if (line.pid === 0) options.barrier.cameBack(line.text);
        else laneOf(keyOf(line.pid)).push(line);
      }
      running ??= run();
    },

    /** Resolves when what sshd had logged about the directory before the call has been followed. */
    async caughtUp(directoryId: string): Promise<void> {
      await options.barrier.passed();
      const unknown = [...lanes.keys()].filter((key) => key.startsWith('process '));
      const awaited = [directoryId, ...unknown].flatMap((key) => lanes.get(key) ?? []);
      await Promise.all(awaited.map((lane) => new Promise<void>((resolve) => lane.push(resolve))));
    },

    /** Takes up the sessions that are live already. */
    async adoptSessions(): Promise<void> {
      for (const { pid, uid } of await processesFrom(options.firstUid)) await adopt(pid, uid);
    },

    /** Ends sessions whose process died without a word: two looks have to agree. */
    async sweep(): Promise<void> {
      if (running) return;
      for (const { pid } of sessions.all()) {
        if (isAlive(pid)) suspects.delete(pid);
        else if (suspects.delete(pid)) interpreter.end(pid, options.clock.now());
        else suspects.add(pid);
      }
    },

    async close(): Promise<void> {
      await running;
    },
  };
}

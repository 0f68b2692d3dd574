/**
 * Uploads, wired: the transfer log and the watcher see what happens, the rules say what it means, the recorder writes
 * it down. The map is in ../README.md.
 */
import type { Clock } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import type { Recorded } from './batch.ts';
import { createFollower } from './follow.ts';
import { createMarks } from './marks.ts';
import { jailFiles } from './jail-files.ts';
import { createPlaces } from './places.ts';
import { startOrphans } from './orphans.ts';
import { uploadQueries } from './queries.ts';
import { createRecorder } from './record.ts';
import { startRetention } from './retention.ts';
import { createRounds } from './rounds.ts';
import { createSettler } from './settle.ts';
import { temporaryNames } from './temp-names.ts';
import { logTransfers } from './transfer-lines.ts';
import { openTransferLog } from './transfer-log.ts';
import { createUnclear } from './unclear.ts';
import { Vanished } from './vanished.ts';
import { createWatched } from './watched.ts';
import { createWatcher } from './watcher.ts';

export interface UploadsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  /** The file of that database, for the threads that read it too. */
  readonly databaseFile: string;
  readonly jailDir: string;
  /** Where the transfer log's sockets are made: on the jails' file system, closed to users. */
  readonly logFolder: string;
  readonly tempNames: readonly string[];
  readonly firstUid: number;
  /** With more directories than this, not all of them are watched. */
  readonly watchLimit: number;
  /** The client's address of a session that began before this process, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Called with what a commit has put into the history. */
  recorded(recorded: readonly Recorded[]): void;
  /** Between scans of everything while not all of it is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
  /** Called after a commit that enqueued webhooks. */
  wake(): void;
}

export interface UploadsState {
  /** Live SFTP sessions. */
  readonly sessions: number;
  readonly transferLogRead: boolean;
  /** False once the kernel has refused a watch. */
  readonly watchesComplete: boolean;
}

export interface Uploads {
  readonly sockets: { currentSocket(): string; moreSockets(): Promise<string> };
  /** Takes up live sessions; call it once their jails are linked to the transfer log. */
  adoptSessions(): Promise<void>;
  /** Looks at every directory and watches it from then on, then applies retention. In the background. */
  coverAll(): Promise<void>;
  /** A directory has become live. */
  watch(username: string): void;
  unwatch(username: string): void;
  /** For those who look at the service from outside. */
  state(): UploadsState;
  /** Whether changes are seen as they should be. */
  healthy(): boolean;
  close(): Promise<void>;
}

/** Opens the transfer log and starts listening. Call `coverAll` once the jails are linked to it. */
export async function startUploads(options: UploadsOptions): Promise<Uploads> {
  const { database, clock, log, jailDir } = options;
  const queries = uploadQueries(database.reads);
  const filesRoot = jailFiles(jailDir);
  const withPlace = createPlaces(queries);
  const stop = new AbortController();

  const marks = createMarks(() => transferLog.allSockets);
  const recorder = createRecorder({
    database,
    log,
    filesRoot,
    isTemporary: temporaryNames(options.tempNames),
    vanished: new Vanished(),
    isWritten: (directoryId, inode) => follower.isWritten(directoryId, inode),
    wake: options.wake,
    recorded(recorded) {
      logTransfers(log, recorded);
      options.recorded(recorded);
    },
    rescan: (directoryId) => rounds.request(directoryId),
    caughtUp: marks.passed,
  });
  const follower = createFollower({
    clock,
    log,
    filesRoot,
    queries,
    firstUid: options.firstUid,
    live: (username) => watched.use(username),
    addressOf: options.addressOf,
    isMark: marks.take,
    note: recorder.note,
    emit(changes) {
      for (const change of changes) if (change.kind === 'closed') settler.explained(change.directoryId, change.path);
      recorder.push(changes);
    },
    unclear(id, username, event, pid, at) {
      if (event.about === 'other') return rounds.request(id);
      const place = { id, sftp_username: username };
      unclear.resolve({ place, start: event.start, forced: event.about === 'forced close', pid, at });
    },
  });
  const unclear = createUnclear({
    filesRoot,
    queries,
    isWritten: follower.isWritten,
    emit: recorder.push,
    scan(id, error) {
      if (error !== undefined) {
        log.error({ err: error, directory: id }, 'cannot look for a file whose name was cut, scanning instead');
      }
      rounds.request(id);
    },
    signal: stop.signal,
  });
  const settler = createSettler({
    clock,
    log,
    filesRoot,
    queries,
    isWritten: follower.isWritten,
    isOpen: follower.isOpen,
    sessionOf: follower.sessionOf,
    emit: recorder.push,
  });
  const orphans = startOrphans({ clock, log, queries, isLive: follower.isLive, emit: recorder.push });
  const watcher = createWatcher({
    log,
    filesRoot,
    changed: (username, path) => void withPlace(username, (place) => settler.suspect(place, path)),
    missing: (username, path) => void withPlace(username, (place) => settler.missing(place, path)),
    unclear: (username) => void withPlace(username, (place) => rounds.request(place.id)),
  });
  const watched = createWatched(watcher, options.watchLimit);
  const rounds = createRounds({
    log,
    filesRoot,
    queries,
    settler,
    watched,
    drained: recorder.drained,
    thread: { databaseFile: options.databaseFile, jailDir },
    signal: stop.signal,
    roundPause: options.roundPause,
  });
  const retention = startRetention({
    reads: database.reads,
    clock,
    log,
    filesRoot,
    isWritten: follower.isWritten,
    emit: recorder.push,
    suspect: settler.suspect,
    drained: recorder.drained,
  });
  const transferLog = await openTransferLog(options.logFolder, follower.follow);

  return {
    sockets: transferLog,
    adoptSessions: follower.adoptSessions,
    async coverAll() {
      await rounds.coverAll();
      await retention.check();
    },
    watch: watched.add,
    unwatch: watched.remove,
    healthy: () => transferLog.listening(),
    state: () => ({
      sessions: follower.sessions(),
      transferLogRead: transferLog.listening(),
      watchesComplete: watched.complete(),
    }),
    async close() {
      stop.abort();
      await transferLog.close();
      await follower.close();
      settler.close();
      orphans.close();
      await unclear.close();
      await rounds.close();
      await retention.close();
      await watcher.close();
      await recorder.close();
    },
  };
}

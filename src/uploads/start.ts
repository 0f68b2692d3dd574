/**
 * Uploads, wired: the transfer log, the watcher and scans put evidence into the ledger; the recorder looks and writes.
 * The map is in ../README.md.
 */
import { LRUCache } from 'lru-cache';
import type { Background } from '../background.ts';
import { lstatBeneath } from '../beneath.ts';
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import type { Transact } from '../webhooks/dispatcher.ts';
import { createDurable, NOT_DURABLE } from './disk/durable.ts';
import { createHeldFiles } from './disk/held-files.ts';
import { createScanner } from './disk/scanner.ts';
import type { Found } from './disk/scan-worker.ts';
import { createWatcher } from './disk/watcher.ts';
import { bytesOf, jailFiles } from './file-path.ts';
import { CutNames } from './log/cut-names.ts';
import { createFollower } from './log/follower.ts';
import { createInterpreter } from './log/interpret.ts';
import { isAlive } from './log/processes.ts';
import { Sessions } from './log/sessions.ts';
import { openTransferLog } from './log/transfer-log.ts';
import { createWriteBarrier } from './log/write-barrier.ts';
import { uploadQueries } from './queries.ts';
import type { HistoryRow } from './record/history.ts';
import { createLedger, type Place } from './record/ledger.ts';
import { REST } from './record/look.ts';
import { createRecorder } from './record/recorder.ts';
import { Strays } from './record/strays.ts';
import { applyRetention } from './retention.ts';
import { temporaryNames } from './temp-names.ts';
import { createWaiting } from './waiting.ts';

/** Looks on their way to the database beyond which a scan waits. */
const SCAN_BACKLOG = 1000;
/** How often dead sessions, files that wait for one, and old files are looked for, in ms. */
const SESSION_SWEEP = 5000;
const WAITING_SWEEP = 2000;
const RETENTION = 3_600_000;
/** Usernames are never used again, so which directory one stands for can be remembered. */
const PLACES = 20_000;

export interface UploadsOptions {
  readonly database: Database;
  readonly background: Background;
  readonly clock: Clock;
  readonly log: Log;
  /** The file of that database, for the thread that reads it too. */
  readonly databaseFile: string;
  readonly jailDir: string;
  /** Where the transfer log's sockets are made: on the jails' file system, closed to users. */
  readonly logFolder: string;
  readonly tempNames: readonly string[];
  /** Whether an upload is put on the disk before it is announced. */
  readonly sync: boolean;
  readonly firstUid: number;
  /** With more directories than this, not all of them are watched. */
  readonly watchLimit: number;
  /** How far the clock was set forward lately. */
  lead(): Micros;
  /** The client's address of a session that began before this process, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Called with what a commit has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** Between scans of everything while not all of it is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
  readonly transact: Transact;
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
  close(): Promise<void>;
}

/** Opens the transfer log and starts listening. Call `coverAll` once the jails are linked to it. */
export async function startUploads(options: UploadsOptions): Promise<Uploads> {
  const { database, clock, log, background } = options;
  const queries = uploadQueries(database.reads);
  const filesRoot = jailFiles(options.jailDir);
  const isTemporary = temporaryNames(options.tempNames);
  const heldFiles = createHeldFiles();
  const sessions = new Sessions();
  const cutNames = new CutNames();
  const strays = new Strays();
  const isHeld = (directoryId: string, inode: number): Promise<boolean> =>
    heldFiles.isHeldByAny(sessions.pidsOf(directoryId), inode);

  const ledger = createLedger({
    isTemporary,
    stillWrites: ({ pid, isDoubtful, inode }) =>
      isDoubtful ? inode !== undefined && heldFiles.isHeldBy(pid, inode) : isAlive(pid),
    stray(directoryId, close) {
      strays.addClose(directoryId, close);
      scanner.request(directoryId);
    },
    onDue: () => recorder.wake(),
  });
  const barrier = createWriteBarrier(() => transferLog.allSockets);
  const interpreter = createInterpreter({
    ledger,
    sessions,
    lstat: (place, path) => lstatBeneath(filesRoot(place.sftp_username), bytesOf(path)),
    unclear({ place, by }, { about, start }, at) {
      if (about !== 'other') {
        cutNames.add(place.id, { start, isComplete: about === 'close', at, by, bytes: undefined, isDoubted: false });
      }
      scanner.request(place.id);
    },
    note: (note) => recorder.note(note),
    over(place, by, at) {
      waiting.over(place, by, at).catch((error: unknown) => log.warn({ err: error }, 'the next sweep repeats it'));
    },
  });
  const watcher = createWatcher({
    log,
    filesRoot,
    limit: options.watchLimit,
    changed: (username, path) => withPlace(username, (place) => ledger.touch(place, path, REST)),
    missing: (username, path) => withPlace(username, (place) => ledger.missing(place, path)),
    unclear: (username) => withPlace(username, (place) => scanner.request(place.id)),
  });
  const follower = createFollower({
    clock,
    log,
    filesRoot,
    queries,
    ledger,
    sessions,
    interpreter,
    heldFiles,
    barrier,
    firstUid: options.firstUid,
    addressOf: options.addressOf,
    live: watcher.use,
    lost: (place) => scanner.request(place.id),
  });
  const recorder = createRecorder({
    clock,
    log,
    ledger,
    filesRoot,
    isTemporary,
    durable: options.sync ? createDurable() : NOT_DURABLE,
    strays,
    isLive: (directoryId, pid) => sessions.isLive(directoryId, pid),
    livePid: (directoryId) => sessions.pidsOf(directoryId)[0],
    isHeld,
    caughtUp: follower.caughtUp,
    rescan: (directoryId) => scanner.request(directoryId),
    transact: options.transact,
    recorded: options.recorded,
  });
  const scanner = createScanner({
    log,
    background,
    queries,
    watcher,
    databaseFile: options.databaseFile,
    jailDir: options.jailDir,
    roundPause: options.roundPause,
    now: () => clock.now(),
    async take(found) {
      for (const each of found) await takeFound(each);
      await recorder.drained(SCAN_BACKLOG);
    },
    tooDeep: ({ id }) => log.warn({ directory: id }, 'folders are nested too deeply; what lies below is not seen'),
    scanned: ({ id }, upTo) => cutNames.forget(id, upTo),
  });
  const waiting = createWaiting({ clock, queries, ledger, isLive: (id, pid) => sessions.isLive(id, pid) });
  const places = new LRUCache<string, Place>({ max: PLACES });

  function withPlace(username: string, use: (place: Place) => void): void {
    const known = places.get(username);
    if (known) use(known);
    else void learnPlace(username, use);
  }

  async function learnPlace(username: string, use: (place: Place) => void): Promise<void> {
    try {
      const place = await queries.directoryOf(username);
      if (!place) return;
      places.set(username, place);
      use(place);
    } catch (error) {
      log.error({ err: error, username }, 'cannot tell whose jail has changed');
    }
  }

  async function takeFound({ place, path, isMissing }: Found): Promise<void> {
    if (isMissing) return ledger.missing(place, path);
    const close = cutNames.of(place.id, path);
    if (!close) return ledger.touch(place, path, 0);
    const inode = lstatBeneath(filesRoot(place.sftp_username), bytesOf(path))?.ino;
    if (inode === undefined || !(await isHeld(place.id, inode))) ledger.closed(place, path, close);
  }

  const loops = [
    background.start('sessions', { every: SESSION_SWEEP }, follower.sweep),
    background.start('waiting-uploads', { every: WAITING_SWEEP }, waiting.sweep),
  ];
  const retention = background.start('retention', { every: RETENTION }, (signal) =>
    applyRetention({ ...options, reads: database.reads, filesRoot, ledger, isHeld, drained: recorder.drained }, signal),
  );
  const transferLog = await openTransferLog(options.logFolder, follower.follow);

  return {
    sockets: transferLog,
    adoptSessions: follower.adoptSessions,
    async coverAll() {
      await scanner.coverAll();
      await retention.run();
    },
    watch: watcher.add,
    unwatch: watcher.remove,
    state: () => ({
      sessions: sessions.serving(),
      transferLogRead: transferLog.listening(),
      watchesComplete: watcher.isComplete(),
    }),
    async close() {
      await transferLog.close();
      await follower.close();
      for (const loop of loops) await loop.close();
      await retention.close();
      await scanner.close();
      await watcher.close();
      await recorder.close();
      ledger.close();
    },
  };
}

/**
 * Uploads, wired: the transfer log, the watcher and scans put evidence into the ledger; the recorder looks and writes.
 * The map is in ../README.md.
 */
import type { Background } from '../background.ts';
import { lstatBeneath } from '../beneath.ts';
import type { Clock } from '../clock.ts';
import type { ClockLead } from '../clock-lead.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import type { Transact } from '../webhooks/dispatcher.ts';
import { type DirectoryFiles, directoryFiles } from './directory-files.ts';
import { Durable } from './disk/durable.ts';
import { Scanner } from './disk/scanner.ts';
import { Watcher } from './disk/watcher.ts';
import { bytesOf, type FilePath, jailFiles, temporaryNames } from './file-path.ts';
import { type Jail, JailQueries, untilAnswered } from './jails.ts';
import { Follower } from './log/follower.ts';
import { Interpreter } from './log/interpret.ts';
import { Sessions } from './log/sessions.ts';
import { Speakers } from './log/speakers.ts';
import { Spool } from './log/spool.ts';
import { openTransferLog, type TransferLog } from './log/transfer-log.ts';
import type { Line } from './log/transfer-log-worker.ts';
import { UnheardSessions } from './log/unheard-sessions.ts';
import { WriteBarrier } from './log/write-barrier.ts';
import { filesHeldBy, HeldInodes } from './processes.ts';
import { type HistoryRow, logHistory } from './record/history.ts';
import { REST } from './record/look.ts';
import { startRecording } from './record/start.ts';
import { applyRetention } from './retention.ts';
import { createSettling, type Settling } from './settling.ts';
import { createTransit, settleTransit } from './transit.ts';
import { WaitingFiles } from './waiting-files.ts';

/** Looks that are due or under way beyond which a scan waits. */
const SCAN_BACKLOG = 1000;
/** How often dead sessions, files that wait for one, and old files are looked for, in ms. */
const SESSION_SWEEP = 2000;
const WAITING_SWEEP = 2000;
const RETENTION = 3_600_000;

export interface UploadsOptions {
  readonly database: Database;
  readonly background: Background;
  readonly clock: Clock;
  readonly log: Log;
  /** Where that is, for the thread that reads it too. */
  readonly databasePlace: string;
  readonly jailDir: string;
  /** Whose directories these are: this machine's name. */
  readonly node: string;
  readonly paths: {
    /** Where the transfer log's sockets are made: on the jails' file system, closed to users. */
    readonly corner: string;
    /** For files on their way into a directory or out of it: likewise. */
    readonly transit: string;
  };
  readonly tempNames: readonly string[];
  /** Whether an upload is put on the disk before it is announced. */
  readonly sync: boolean;
  readonly firstUid: number;
  /** With more directories than this, not all of them are watched. */
  readonly watchLimit: number;
  readonly clockLead: ClockLead;
  /** The client's address of a session that began before this process, undefined when it is none of this berth's. */
  addressOf(username: string, pid: number): string | undefined;
  /** Called with what a commit has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** Between scans of everything while not all of it is watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
  readonly transact: Transact;
  /** False while the disk of the jails is not mounted: then nothing is recorded as removed. */
  readonly isJailDiskThere?: (() => boolean) | undefined;
  /** Whether nothing of a directory may be changed now. */
  readonly isShut?: ((directoryId: string) => boolean) | undefined;
  /** Where what sshd logs is kept while the database is away; undefined with SQLite, which never is. */
  readonly spool?: { readonly folder: string; isAway(): boolean } | undefined;
}

export interface UploadsState {
  /** Live SFTP sessions. */
  readonly sessions: number;
  readonly transferLogRead: boolean;
  /** False once the kernel has refused a watch. */
  readonly watchesComplete: boolean;
}

export interface Uploads extends Settling {
  readonly sockets: Pick<TransferLog, 'currentSocket' | 'moreSockets'>;
  readonly files: DirectoryFiles;
  /** Takes up live sessions; call it once their jails are linked to the transfer log. */
  adoptSessions(): Promise<void>;
  /** Looks at every directory and watches it from then on, then applies retention. In the background. */
  coverAll(): Promise<void>;
  /** A directory has become live. */
  watch(jail: Jail): void;
  unwatch(jail: Jail): void;
  /** Looks at all files of a directory soon. */
  scan(jail: Pick<Jail, 'id'>): void;
  /** For those who look at the service from outside. */
  state(): UploadsState;
  close(): Promise<void>;
}

/** Opens the transfer log and starts listening. Call `coverAll` once the jails are linked to it. */
export async function startUploads(options: UploadsOptions): Promise<Uploads> {
  const { background } = options;
  const closing = new AbortController();
  const parts = wire(options, () => transferLog.allSockets, closing.signal);
  const {
    filesRoot,
    follower,
    ledger,
    recorder,
    scanner,
    schedule,
    sessions,
    spool,
    unheard,
    unmatched,
    waiting,
    watcher,
  } = parts;
  const drained = (left: number) => recorder.drained(left);
  await settleTransit(parts.transit, { ...options, reads: options.database.reads, filesRoot });
  const settling = createSettling(parts);
  const mustStay = async (id: string) => {
    const written = await settling.written(id);
    return (inode: number) => (options.isShut?.(id) ?? false) || written.has(inode);
  };
  const retention = { ...options, filesRoot, ledger, mustStay, drained };
  const loops = {
    sessions: background.start('sessions', { every: SESSION_SWEEP }, () => unheard.sweep()),
    waiting: background.start('waiting-uploads', { every: WAITING_SWEEP }, () => waiting.sweep()),
    retention: background.start('retention', { every: RETENTION }, (signal) => applyRetention(retention, signal)),
  };
  const transferLog = await openTransferLog(options.paths.corner, parts.hear);

  return {
    sockets: transferLog,
    files: directoryFiles({
      ...options,
      ...parts,
      caughtUp: (id) => follower.caughtUp(id),
      isHeldNow: (id, inode) =>
        sessions.pidsOf(id).some((pid) => filesHeldBy(pid).some((held) => held.inode === inode)),
      touch: (jail, path, ms) => ledger.touch(jail, path, ms),
      missing: (jail, path) => ledger.missing(jail, path),
      recorded(rows) {
        logHistory(options.log, rows);
        options.recorded(rows);
      },
    }),
    adoptSessions() {
      unmatched.heardFrom(options.clock.now());
      return unheard.adoptAll();
    },
    async coverAll() {
      await spool?.allRead(); // it explains what a scan finds
      await scanner.coverAll();
      await loops.retention.run();
    },
    watch: ({ id, sftp_username }) => watcher.add({ id, sftp_username }),
    unwatch: (jail) => watcher.remove(jail),
    scan: ({ id }) => scanner.request(id),
    ...settling,
    state: () => ({
      sessions: sessions.all().filter(({ serves }) => serves).length,
      transferLogRead: transferLog.listening(),
      watchesComplete: watcher.isComplete(),
    }),
    async close() {
      closing.abort();
      // They may wait for the log.
      for (const loop of Object.values(loops)) await loop.close();
      await transferLog.close();
      await spool?.close();
      await follower.close();
      await scanner.close();
      await watcher.close();
      await recorder.close();
      schedule.close();
    },
  };
}

/** The parts, and what each tells the others. */
function wire(options: UploadsOptions, sockets: () => readonly string[], closing: AbortSignal) {
  const { database, log, isJailDiskThere = () => true } = options;
  const jails = new JailQueries(database.reads, options.node);
  const logJails = untilAnswered(jails, closing);
  const sessions = new Sessions();
  const held = new HeldInodes();
  const durable = new Durable({ isOn: options.sync });
  const transit = createTransit(options.paths.transit);
  const filesRoot = jailFiles(options.jailDir);
  const lstat = ({ sftp_username }: Jail, path: FilePath) => lstatBeneath(filesRoot(sftp_username), bytesOf(path));
  const isHeld = (id: string, inode: number) => held.isHeldByAny(sessions.pidsOf(id), inode);
  const livePids = (id: string) => sessions.pidsOf(id);
  const caughtUp = (id: string) => follower.caughtUp(id);
  const isBehind = (jail: Jail) => spool?.isBehind(jail) ?? false;
  const rescan = (id: string) => (spool ? spool.scan(id) : scanner.request(id));

  const recording = startRecording({
    ...options,
    filesRoot,
    isTemporary: temporaryNames(options.tempNames),
    durable,
    isHeld,
    livePids,
    exists: ({ pid, inode }) => inode !== undefined && held.isHeldBy(pid, inode),
    caughtUp,
    rescan,
    isRepeating: () => spool?.isRepeating() ?? false,
  });
  const { ledger, notes, recorder, schedule, unmatched } = recording;
  const waiting = new WaitingFiles({
    ...options,
    reads: database.reads,
    ledger,
    livePids,
    drained: (left) => recorder.drained(left),
  });
  const watcher = new Watcher({
    log,
    filesRoot,
    limit: options.watchLimit,
    changed: (jail, path) => (isBehind(jail) ? rescan(jail.id) : ledger.touch(jail, path, REST)),
    missing: (jail, path) => (isBehind(jail) || !isJailDiskThere() ? rescan(jail.id) : ledger.missing(jail, path)),
    unclear: ({ id }) => rescan(id),
    newFolder: ({ id }) => scanner.requestForFolder(id),
    overflowed: () => scanner.roundSoon(),
  });
  const scanner: Scanner = new Scanner({
    ...options,
    jails,
    watcher,
    async take(found) {
      for (const { jail, path, isMissing } of found) {
        if (isMissing && isJailDiskThere()) ledger.missing(jail, path);
        else if (!isMissing) ledger.touch(jail, path, 0);
      }
      await recorder.drained(SCAN_BACKLOG);
    },
    tooDeep: ({ id }) => log.warn({ directory: id }, 'folders are nested too deeply; what lies below is not seen'),
  });
  const interpreter = new Interpreter({
    ledger,
    sessions,
    lstat,
    note: (note) => notes.add(note),
    unclear({ jail, by }, { about, start }, at) {
      const end = { isComplete: about === 'close', at, by, bytes: undefined, isDoubted: false };
      if (about !== 'other') unmatched.addCutClose(jail.id, start, end);
      rescan(jail.id);
    },
    ended({ jail, by, hasUndone }, at) {
      if (hasUndone) rescan(jail.id);
      const failed = (error: unknown) => log.warn({ err: error }, 'the next sweep repeats it');
      waiting.sessionEnded(jail, by, at).catch(failed);
    },
  });
  const live = (jail: Jail) => watcher.use(jail);
  const lost = ({ id }: Jail) => rescan(id);
  const unheard = new UnheardSessions({
    ...options,
    filesRoot,
    jails: logJails,
    ledger,
    sessions,
    interpreter,
    caughtUp,
    isBehind: options.spool && isBehind,
    live,
    lost,
  });
  const barrier = new WriteBarrier(sockets);
  const heard = { schedule, sessions, interpreter, unheard };
  const passed = async (id: string): Promise<void> => spool?.passed(id);
  const follower: Follower = new Follower({ ...heard, log, jails: logJails, barrier, passed, live });
  const speakers = new Speakers(filesRoot, (pid) => sessions.get(pid));
  const kept = { speakers, jails: logJails, follower, schedule, unheard, log, signal: closing };
  const spool = options.spool && new Spool({ ...options.spool, ...kept, scan: (id) => scanner.request(id) });
  const hear = (lines: readonly Line[]): void => (spool ? spool.take(lines) : follower.follow(lines));

  return {
    durable,
    filesRoot,
    follower,
    hear,
    isHeld,
    ledger,
    recorder,
    scanner,
    schedule,
    sessions,
    spool,
    transit,
    unheard,
    unmatched,
    waiting,
    watcher,
  };
}

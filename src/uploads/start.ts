/**
 * Uploads, wired: the journal of sshd's log tells the recorder what happened, the watcher and scans where to look.
 * The map is in ../README.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Background } from '../background.ts';
import type { UncleanBoot } from '../boot.ts';
import { lstatBeneath } from '../beneath.ts';
import type { Clock } from '../clock.ts';
import type { ClockLead } from '../clock-lead.ts';
import type { Database } from '../db/open.ts';
import type { Log } from '../log.ts';
import type { Transact } from '../webhooks/dispatcher.ts';
import { type DirectoryFiles, directoryFiles } from './directory-files.ts';
import type { ContentOptions } from './content.ts';
import { Durable } from './disk/durable.ts';
import { Scanner } from './disk/scanner.ts';
import { Watcher } from './disk/watcher.ts';
import { bytesOf, type FilePath, jailFiles, temporaryNames } from './file-path.ts';
import { type Jail, JailQueries, untilAnswered } from './jails.ts';
import { JournalReader } from './log/journal-reader.ts';
import { JournalStart } from './log/journal-start.ts';
import type { TransferLog } from './log/transfer-log.ts';
import { WriteBarrier } from './log/write-barrier.ts';
import { filesHeldBy, HeldInodes, isAlive } from './processes.ts';
import { Doubts } from './record/doubts.ts';
import { type HistoryRow, logHistory } from './record/history.ts';
import type { TakingOptions } from './removal.ts';
import { applyRetention } from './retention.ts';
import { createSettling, type Settling } from './settling.ts';
import { createFollower } from './story/follower.ts';
import { REST_MS } from './story/look.ts';
import { Loop } from './story/loop.ts';
import { Recorder } from './story/recorder.ts';
import { createTransit, settleTransit, type SettlingOptions } from './transit.ts';
import { WaitingFiles } from './waiting-files.ts';

/** Looks that are due or under way beyond which a scan waits. */
const SCAN_BACKLOG = 1000;
/** How long what waits in the sockets may hold up the end. */
const LAST_WORDS_MS = 2000;
/** How often dead sessions, files that wait for one, and old files are looked for. */
const SESSION_SWEEP_MS = 2000;
const WAITING_SWEEP_MS = 2000;
const RETENTION_MS = 3_600_000;
/** Between checks whether few enough looks are left. */
const DRAIN_CHECK_MS = 10;

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
    /** For files on their way into a directory or out of it: on the jails' file system, closed to users. */
    readonly transit: string;
    /** Where the transfer log keeps the journal. */
    readonly journal: string;
  };
  readonly tempNames: readonly string[];
  /** Whether an upload is put on the disk before it is announced. */
  readonly sync: boolean;
  /** Whether uploads are checked before they are announced; false when left out. */
  readonly isChecked?: boolean | undefined;
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
  /** Whether the database is away; SQLite never is. */
  readonly isAway?: (() => boolean) | undefined;
  /** Open; whoever has opened it closes it, after this. */
  readonly transferLog: TransferLog;
  /** Moves a file that a crash has left in transit to the quarantine, if it belongs there. */
  readonly quarantined?: SettlingOptions['quarantined'];
  /** How the machine came up, if it had not gone down in order. */
  readonly uncleanBoot?: UncleanBoot | undefined;
}

export interface UploadsState {
  /** Live SFTP sessions. */
  readonly sessions: number;
  readonly transferLogRead: boolean;
  /** False once the kernel has refused a watch. */
  readonly watchesComplete: boolean;
}

export interface Uploads extends Settling {
  readonly files: DirectoryFiles;
  /** For what decides about files that are being checked. */
  readonly hands: Hands;
  /** Takes up live sessions; call it once their jails are linked to the transfer log. */
  adoptSessions(): Promise<void>;
  /**
   * Looks at every directory and watches it from then on, then applies retention. In the background.
   * Call it when every jail is linked to the transfer log.
   */
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

/** What changes files of directories works with. */
export interface Hands extends TakingOptions, ContentOptions {
  /** Called with what a commit has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
}

/** Starts to follow the transfer log. Call `coverAll` once the jails are linked to it. */
export async function startUploads(options: UploadsOptions): Promise<Uploads> {
  const { background, clock, database, log, transferLog } = options;
  const { isAway = () => false, isJailDiskThere = () => true } = options;
  const closing = new AbortController();
  const jails = new JailQueries(database.reads, options.node);
  const held = new HeldInodes();
  const durable = new Durable({ isOn: options.sync });
  const transit = createTransit(options.paths.transit);
  const filesRoot = jailFiles(options.jailDir);
  const journalStart = new JournalStart(options.paths.journal);
  const doubts = new Doubts({ boot: options.uncleanBoot, journal: journalStart });
  const barrier = new WriteBarrier();
  const loop = new Loop(log);
  const compare = (id: string): void => scanner.request(id);
  const pidsOf = (id: string): number[] => recorder.known(id)?.pids() ?? [];
  const isRestoring = (username: string): boolean => reader.isRestoring(username);
  const handedOver = async ({ sftp_username: username }: Jail): Promise<void> => {
    const socket = transferLog.socketOf(username);
    if (socket !== undefined) await barrier.passed(socket);
    await reader.passed(username);
  };
  const caughtUp = async (jail: Jail): Promise<void> => {
    await handedOver(jail);
    await recorder.read(jail.id);
  };

  const recorder: Recorder = new Recorder({
    world: {
      lstat: ({ sftp_username }, path) => lstatBeneath(filesRoot(sftp_username), bytesOf(path)),
      isHeldBy: (pid, inode) => !isAlive(pid) || held.isHeldBy(pid, inode),
      isHeldByAny: (pids, inode) => held.isHeldByAny(pids, inode),
      sync: ({ sftp_username }, path) => durable.sync(filesRoot(sftp_username), path),
      heard: handedOver,
      isDiskThere: isJailDiskThere,
      monotonic: () => performance.now(),
    },
    clock,
    log,
    node: options.node,
    isTemporary: temporaryNames(options.tempNames),
    isChecked: options.isChecked,
    transact: options.transact,
    provenFrom: options.uncleanBoot?.at,
    doubts,
    recorded: options.recorded,
    compare,
    wake: () => loop.wake(),
  });
  // Whatever there is to look at would wait in memory while the database is away.
  const look = (jail: Jail, path: FilePath, inMs: number): void =>
    isAway() ? compare(jail.id) : recorder.look(jail, path, inMs);
  const watcher = new Watcher({
    log,
    filesRoot,
    limit: options.watchLimit,
    changed: (jail, path) => look(jail, path, REST_MS),
    missing: (jail, path) => look(jail, path, 0),
    unclear: ({ id }) => compare(id),
    newFolder: ({ id }) => scanner.requestForFolder(id),
    overflowed: () => scanner.roundSoon(),
  });
  const drained = async (left: number): Promise<void> => {
    while (recorder.pending() > left && !closing.signal.aborted) await wait(DRAIN_CHECK_MS);
  };
  const scanner: Scanner = new Scanner({
    ...options,
    jails,
    watcher,
    async take(found) {
      for (const { jail, path, isMissing } of found) if (!isMissing || isJailDiskThere()) recorder.look(jail, path, 0);
      await drained(SCAN_BACKLOG);
    },
    tooDeep: ({ id }) => log.warn({ directory: id }, 'folders are nested too deeply; what lies below is not seen'),
  });
  const follower = createFollower({
    ...options,
    filesRoot,
    jails: untilAnswered(jails, closing.signal),
    recorder,
    heard: caughtUp,
    isRestoring,
    isGapless: () => transferLog.isInherited,
    live: (jail) => watcher.use(jail),
    ended: ({ sftp_username: username }) => reader.revisit(username),
    doubts,
    compare,
  });
  const journal = { folder: options.paths.journal, transferLog, consumer: follower, signal: closing.signal };
  const reader: JournalReader = new JournalReader(journal, (text) => barrier.cameBack(text));

  // Without directories there is no file to doubt.
  if (journalStart.at === Infinity && (await jails.count()) === 0) journalStart.linked(clock.now());
  await settleTransit(transit, { ...options, filesRoot });
  const waiting = new WaitingFiles({
    reads: database.reads,
    node: options.node,
    livePids: pidsOf,
    isRestoring,
    abandoned: (jail, path) => recorder.look(jail, path, 0),
  });
  const settling = createSettling({ caughtUp, pidsOf, sweep: () => follower.sweep(), waiting, recorder });
  const retention = {
    ...options,
    filesRoot,
    recorder,
    drained,
    async mustStay(id: string) {
      const written = await settling.written(id);
      return (inode: number) => (options.isShut?.(id) ?? false) || written.has(inode);
    },
  };
  loop.start(recorder);
  const loops = {
    sessions: background.start('sessions', { every: SESSION_SWEEP_MS }, () => follower.sweep()),
    waiting: background.start('waiting-uploads', { every: WAITING_SWEEP_MS }, () => waiting.sweep()),
    retention: background.start('retention', { every: RETENTION_MS }, (signal) => applyRetention(retention, signal)),
  };
  transferLog.follow(reader);

  const hands: Hands = {
    filesRoot,
    transit,
    durable,
    caughtUp,
    isHeld: (id, inode) => held.isHeldByAny(pidsOf(id), inode),
    isHeldNow: (id, inode) => pidsOf(id).some((pid) => filesHeldBy(pid).some((file) => file.inode === inode)),
    missing: (jail, path) => recorder.look(jail, path, 0),
    recorded(rows) {
      logHistory(log, rows);
      options.recorded(rows);
    },
  };
  return {
    files: directoryFiles({ ...options, ...hands, touch: (jail, path, ms) => recorder.look(jail, path, ms) }),
    hands,
    adoptSessions: () => follower.adoptAll(),
    async coverAll() {
      journalStart.linked(clock.now());
      await reader.allRestored(); // it explains what a scan finds
      await scanner.coverAll();
      await loops.retention.run();
    },
    watch: ({ id, sftp_username }) => watcher.add({ id, sftp_username }),
    unwatch: (jail) => watcher.remove(jail),
    scan: ({ id }) => compare(id),
    ...settling,
    state: () => ({
      sessions: recorder.sessions().length,
      transferLogRead: transferLog.listening(),
      watchesComplete: watcher.isComplete(),
    }),
    async close() {
      // The sessions may have ended just before: what they said last is heard by nobody else.
      const allHeard = Promise.all(transferLog.socketsFor('').map((socket) => barrier.passed(socket)));
      await Promise.race([allHeard, wait(LAST_WORDS_MS, undefined, { ref: false })]);
      closing.abort();
      // They may wait for the log.
      for (const each of Object.values(loops)) await each.close();
      transferLog.follow(undefined);
      await scanner.close();
      await watcher.close();
      await loop.close();
      await reader.close();
    },
  };
}

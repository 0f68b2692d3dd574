/**
 * Wires the parts of uploads together: the journal of sshd's log tells the recorder what happened, and the watcher and
 * scans tell it where to look. For the map, see ../README.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Background } from '../../foundation/base/background.ts';
import type { UncleanBoot } from '../../foundation/base/boot.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import type { ClockLead } from '../../foundation/db/clock-lead.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { Transact } from '../../foundation/db/database.ts';
import { FileSyncer } from './disk/file-syncer.ts';
import { Scanner } from './disk/scanner.ts';
import { Watcher } from './disk/watcher.ts';
import { type IsTemporary, bytesOf, type FilePath, type FilesRoot, jailFiles, temporaryNames } from './file-path.ts';
import { type Jail, JailQueries, untilAnswered } from './jails.ts';
import { JournalReader } from './log/journal-reader.ts';
import { JournalStart } from './log/journal-start.ts';
import type { TransferLog } from './log/transfer-log.ts';
import { WriteBarrier } from './log/write-barrier.ts';
import { fewPathsHeldBy, filesHeldBy, HeldInodes, isAlive } from './processes.ts';
import { Doubts } from './record/doubts.ts';
import { type HistoryRow, logHistory } from './record/transfer-history.ts';
import { applyRetention } from './retention.ts';
import { createDraining, type Draining } from './draining.ts';
import { createLogConsumer } from './story/log-consumer.ts';
import { REST_MS } from './story/jobs.ts';
import { Loop } from './story/loop.ts';
import type { BySession } from './story/operations.ts';
import { Recorder } from './story/recorder.ts';
import { WaitingFiles } from './waiting-files.ts';

/** How much pending work makes a scan wait. */
const SCAN_BACKLOG = 1000;
/** How long reading the last lines from the sockets may delay closing, in ms. */
const LAST_WORDS_MS = 2000;
/** How often, in ms, dead sessions are ended, files that wait for a session are checked, and old files are removed. */
const SESSION_SWEEP_MS = 2000;
const WAITING_SWEEP_MS = 2000;
const RETENTION_MS = 3_600_000;
/** How often to check whether little enough work is pending, in ms. */
const DRAIN_CHECK_MS = 10;

export interface UploadsOptions {
  readonly database: Database;
  readonly background: Background;
  readonly clock: Clock;
  readonly log: Log;
  readonly jailDir: string;
  /** This machine's name: the node of these directories. */
  readonly node: string;
  readonly paths: {
    /** Where the transfer log keeps the journal. */
    readonly journal: string;
  };
  readonly tempNames: readonly string[];
  /** Whether an upload is synced to the disk before it is announced. */
  readonly sync: boolean;
  /** Whether uploads are checked before they are announced; false when left out. */
  readonly isChecked?: boolean | undefined;
  /** Whether uploads wait until their names have settled; false when left out. */
  readonly settles?: boolean | undefined;
  readonly isUnannounced?: IsTemporary | undefined;
  readonly firstUid: number;
  /** How many directories are watched at most. */
  readonly watchLimit: number;
  readonly clockLead: ClockLead;
  /**
   * The client's address of a session that began before this process; undefined when the session is not this berth's.
   */
  addressOf(username: string, pid: number): string | undefined;
  /** Called with what a commit has put into the history. */
  recorded(rows: readonly HistoryRow[]): void;
  /** The pause between scans of all directories while not all are watched, in ms; a minute when left out. */
  readonly roundPause?: number | undefined;
  readonly transact: Transact;
  /** False while the disk of the jails is not mounted: then nothing is recorded as removed. */
  readonly isJailDiskThere?: (() => boolean) | undefined;
  /** Whether the directory's files must not be changed at the moment. */
  readonly isShut?: ((directoryId: string) => boolean) | undefined;
  /** Whether the database is unavailable; SQLite never is. */
  readonly isAway?: (() => boolean) | undefined;
  /** The open transfer log. Its opener closes it after this. */
  readonly transferLog: TransferLog;
  /** Set when the machine started after an unclean shutdown. */
  readonly uncleanBoot?: UncleanBoot | undefined;
}

export interface UploadsState {
  /** Live SFTP sessions. */
  readonly sessions: number;
  readonly transferLogRead: boolean;
  /** False once the kernel has refused a watch. */
  readonly watchesComplete: boolean;
}

export interface Uploads extends Draining {
  readonly live: LiveFiles;
  /** Adopts live sessions. Call it once their jails are linked to the transfer log. */
  adoptSessions(): Promise<void>;
  /**
   * Scans and watches every directory, then applies retention. Resolves when that is done.
   * Call it when every jail is linked to the transfer log.
   */
  coverAll(): Promise<void>;
  /** A directory has become live. */
  watch(jail: Jail): void;
  unwatch(jail: Jail): void;
  /** Looks at all files of a directory soon. */
  scan(jail: Pick<Jail, 'id'>): void;
  /** The state for monitoring. */
  state(): UploadsState;
  close(): Promise<void>;
}

/** What is known about directories' files while sessions change them. */
export interface LiveFiles {
  readonly filesRoot: FilesRoot;
  readonly syncer: FileSyncer;
  /** Resolves once every line that sshd logged about the directory before the call has been interpreted. */
  caughtUp(jail: Jail): Promise<void>;
  /** Whether a session holds that inode open for writing. */
  isHeld(directoryId: string, inode: number): Promise<boolean>;
  /** Like `isHeld`, but asks the kernel. */
  isHeldNow(directoryId: string, inode: number): boolean;
  /** The live sessions of a directory; undefined while those that an earlier process followed are not all known. */
  sessionsOf(jail: Jail): readonly BySession[] | undefined;
  /** Called when a recorded file is not at its path. */
  missing(jail: Jail, path: FilePath): void;
  /** Compares the path with its row after `ms`, because something may have happened to it. */
  touch(jail: Jail, path: FilePath, ms: number): void;
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
  const syncer = new FileSyncer({ isOn: options.sync });
  const filesRoot = jailFiles(options.jailDir);
  const journalStart = new JournalStart(options.paths.journal);
  const doubts = new Doubts({ boot: options.uncleanBoot, journal: journalStart });
  const barrier = new WriteBarrier(() => transferLog.isFull());
  const loop = new Loop(log);
  const compare = (id: string): void => scanner.request(id);
  const pidsOf = (id: string): number[] => recorder.known(id)?.pids() ?? [];
  const isRestoring = (username: string): boolean => reader.isRestoring(username);
  const handedOver = async ({ sftp_username: username }: Jail): Promise<boolean> => {
    const socket = transferLog.socketOf(username);
    const isWhole = socket === undefined || (await barrier.passed(socket));
    await reader.passed(username);
    return isWhole;
  };
  const interpreted = async (jail: Jail): Promise<boolean> => {
    const isWhole = await handedOver(jail);
    await recorder.read(jail.id);
    return isWhole;
  };
  const caughtUp = async (jail: Jail): Promise<void> => void (await interpreted(jail));

  const recorder: Recorder = new Recorder({
    world: {
      lstat: ({ sftp_username }, path) => lstatBeneath(filesRoot(sftp_username), bytesOf(path)),
      heldBy: ({ sftp_username }, pid) => fewPathsHeldBy(pid, sftp_username),
      // Closes in this order, because the process may exit meanwhile.
      isHeldBy: (pid, inode) => held.isHeldBy(pid, inode) || !isAlive(pid),
      isGone: (pid) => !isAlive(pid),
      timesHeldBy: (pid, inode, since) => (isAlive(pid) ? held.timesHeldBy(pid, inode, since) : 0),
      isHeldByAny: (pids, inode) => held.isHeldByAny(pids, inode),
      sync: ({ sftp_username }, path) => syncer.sync(filesRoot(sftp_username), path),
      journalled: handedOver,
      isDiskThere: isJailDiskThere,
      monotonic: () => performance.now(),
      wait,
    },
    clock,
    log,
    node: options.node,
    isTemporary: temporaryNames(options.tempNames),
    isChecked: options.isChecked,
    settles: options.settles,
    isUnannounced: options.isUnannounced,
    transact: options.transact,
    provenFrom: options.uncleanBoot?.at,
    doubts,
    recorded: options.recorded,
    compare,
    wake: () => loop.wake(),
  });
  // While the database is unavailable, looks would only pile up in memory.
  const hint = (jail: Jail, path: FilePath, inMs: number): void =>
    isAway() ? compare(jail.id) : recorder.hint(jail, path, inMs);
  const watcher = new Watcher({
    log,
    filesRoot,
    limit: options.watchLimit,
    changed: (jail, path) => hint(jail, path, REST_MS),
    missing: (jail, path) => hint(jail, path, 0),
    unclear: ({ id }) => compare(id),
    newFolder: ({ id }) => scanner.requestForFolder(id),
    overflowed: () => scanner.roundSoon(),
  });
  const drained = async (left: number): Promise<void> => {
    while (recorder.isBehind(left) && !closing.signal.aborted) await wait(DRAIN_CHECK_MS);
  };
  const scanner: Scanner = new Scanner({
    ...options,
    jails,
    watcher,
    async take(found) {
      for (const { jail, path, isMissing } of found) if (!isMissing || isJailDiskThere()) recorder.look(jail, path, 0);
      await drained(SCAN_BACKLOG);
    },
    tooDeep: ({ id }) => log.warn({ directory: id }, 'folders are nested too deeply; files below are not seen'),
  });
  const logConsumer = createLogConsumer({
    ...options,
    filesRoot,
    jails: untilAnswered(jails, closing.signal),
    recorder,
    interpreted,
    isRestoring,
    live: (jail) => watcher.use(jail),
    ended: ({ sftp_username: username }) => reader.revisit(username),
    doubts,
    compare,
  });
  const journal = { folder: options.paths.journal, transferLog, consumer: logConsumer, signal: closing.signal };
  const reader: JournalReader = new JournalReader(journal, (text) => barrier.cameBack(text));

  // Without directories there are no incomplete files.
  if (journalStart.at === Infinity && (await jails.count()) === 0) journalStart.linked(clock.now());
  const waiting = new WaitingFiles({
    reads: database.reads,
    node: options.node,
    livePids: pidsOf,
    isRestoring,
    abandoned: (jail, path) => recorder.look(jail, path, 0),
  });
  const draining = createDraining({ caughtUp, pidsOf, sweep: () => logConsumer.sweep(), waiting, recorder });
  const retention = {
    ...options,
    filesRoot,
    recorder,
    drained,
    async mustStay(id: string) {
      const written = await draining.written(id);
      return (inode: number) => (options.isShut?.(id) ?? false) || written.has(inode);
    },
  };
  loop.start(recorder);
  const loops = {
    sessions: background.start('sessions', { every: SESSION_SWEEP_MS }, () => logConsumer.sweep()),
    waiting: background.start('waiting-uploads', { every: WAITING_SWEEP_MS }, () => waiting.sweep()),
    retention: background.start('retention', { every: RETENTION_MS }, (signal) => applyRetention(retention, signal)),
  };
  transferLog.follow(reader);

  const live: LiveFiles = {
    filesRoot,
    syncer,
    caughtUp,
    isHeld: (id, inode) => held.isHeldByAny(pidsOf(id), inode),
    isHeldNow: (id, inode) => pidsOf(id).some((pid) => filesHeldBy(pid).some((file) => file.inode === inode)),
    sessionsOf({ id, sftp_username: username }) {
      if (isRestoring(username)) return undefined;
      const sessions = recorder.known(id)?.sessions() ?? [];
      return sessions.filter(({ by, born }) => isAlive(by.pid, born)).map(({ by }) => by);
    },
    missing: (jail, path) => recorder.look(jail, path, 0),
    touch: (jail, path, ms) => recorder.look(jail, path, ms),
    recorded(rows) {
      logHistory(log, rows);
      options.recorded(rows);
    },
  };
  return {
    live,
    adoptSessions: () => logConsumer.adoptAll(),
    async coverAll() {
      journalStart.linked(clock.now());
      await reader.allRestored(); // the journal explains files that a scan finds
      await scanner.coverAll();
      await loops.retention.run();
    },
    watch: ({ id, sftp_username }) => watcher.add({ id, sftp_username }, { isNew: true }),
    unwatch: (jail) => watcher.remove(jail),
    scan: ({ id }) => compare(id),
    ...draining,
    state: () => ({
      sessions: recorder.sessions().length,
      transferLogRead: transferLog.listening(),
      watchesComplete: watcher.isComplete(),
    }),
    async close() {
      // Sessions may have ended just before. No later process would read their last lines.
      const allHeard = Promise.all(transferLog.socketsFor('').map((socket) => barrier.passed(socket)));
      await Promise.race([allHeard, wait(LAST_WORDS_MS, undefined, { ref: false })]);
      closing.abort();
      // The loops may wait for the log, so they are closed while it still runs.
      for (const each of Object.values(loops)) await each.close();
      transferLog.follow(undefined);
      await scanner.close();
      await watcher.close();
      await loop.close();
      await reader.close();
    },
  };
}

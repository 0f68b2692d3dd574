/** Uploads by the new design, wired: see ../start.ts for the parts around it. */
import { lstatBeneath } from '../../beneath.ts';
import { type DirectoryFiles, directoryFiles } from '../directory-files.ts';
import { Durable } from '../disk/durable.ts';
import { Scanner } from '../disk/scanner.ts';
import { Watcher } from '../disk/watcher.ts';
import { bytesOf, jailFiles, temporaryNames } from '../file-path.ts';
import { type Jail, JailQueries, untilAnswered } from '../jails.ts';
import { openTransferLog, type TransferLog } from '../log/transfer-log.ts';
import { WriteBarrier } from '../log/write-barrier.ts';
import { filesHeldBy, HeldInodes, isAlive } from '../processes.ts';
import { logHistory } from '../record/history.ts';
import { applyRetention } from '../retention.ts';
import { createSettling } from '../settling.ts';
import type { Uploads, UploadsOptions } from '../start.ts';
import { createTransit, settleTransit } from '../transit.ts';
import { WaitingFiles } from '../waiting-files.ts';
import { Feed } from './feed.ts';
import { Loop } from './loop.ts';
import { Recorder } from './recorder.ts';

const SCAN_BACKLOG = 1000;
const SESSION_SWEEP_MS = 5000;
const WAITING_SWEEP_MS = 2000;
const RETENTION_MS = 3_600_000;
/** How long a file that changed rests before it is looked at, in ms. */
const REST_MS = 2000;

export async function startStory(options: UploadsOptions): Promise<Uploads> {
  const { background, clock, database, log } = options;
  const closing = new AbortController();
  const jails = new JailQueries(database.reads, options.node);
  const held = new HeldInodes();
  const durable = new Durable({ isOn: options.sync });
  const transit = createTransit(options.paths.transit);
  const filesRoot = jailFiles(options.jailDir);
  const loop = new Loop(log);
  const recorder: Recorder = new Recorder({
    world: {
      lstat: ({ sftp_username }, path) => lstatBeneath(filesRoot(sftp_username), bytesOf(path)),
      isHeldBy: (pid, inode) => !isAlive(pid) || held.isHeldBy(pid, inode),
      isHeldByAny: (pids, inode) => held.isHeldByAny(pids, inode),
      sync: ({ sftp_username }, path) => durable.sync(filesRoot(sftp_username), path),
      heard: (id) => feed.heard(id),
      monotonic: () => performance.now(),
    },
    clock,
    log,
    node: options.node,
    isTemporary: temporaryNames(options.tempNames),
    transact: options.transact,
    recorded: options.recorded,
    compare: (id) => scanner.request(id),
    wake: () => loop.wake(),
  });
  const watcher = new Watcher({
    log,
    filesRoot,
    limit: options.watchLimit,
    changed: (jail, path) => recorder.look(jail, path, REST_MS),
    missing: (jail, path) => recorder.look(jail, path, 0),
    unclear: ({ id }) => scanner.request(id),
  });
  const drained = async (left: number): Promise<void> => {
    while (recorder.pending() > left && !closing.signal.aborted)
      await new Promise((resolve) => setTimeout(resolve, 10));
  };
  const scanner: Scanner = new Scanner({
    ...options,
    jails,
    watcher,
    async take(found) {
      for (const { jail, path } of found) recorder.look(jail, path, 0);
      await drained(SCAN_BACKLOG);
    },
    tooDeep: ({ id }) => log.warn({ directory: id }, 'folders are nested too deeply; what lies below is not seen'),
  });
  const barrier = new WriteBarrier(() => transferLog.allSockets);
  const feed: Feed = new Feed({
    ...options,
    filesRoot,
    jails: untilAnswered(jails, closing.signal),
    recorder,
    barrier,
    live: (jail) => watcher.use(jail),
    compare: (id) => scanner.request(id),
  });
  await settleTransit(transit, { ...options, reads: database.reads, filesRoot });
  const pidsOf = (id: string): number[] => recorder.pids(id);
  const waiting = new WaitingFiles({
    reads: database.reads,
    node: options.node,
    clock,
    ledger: { sessionEnded: (jail: Jail, path: string) => recorder.look(jail, path, 0) },
    livePids: pidsOf,
  });
  const settling = createSettling({
    follower: { caughtUp: (id) => feed.heard(id) },
    sessions: { pidsOf },
    unheard: feed,
    waiting,
    schedule: recorder,
  });
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
    sessions: background.start('sessions', { every: SESSION_SWEEP_MS }, () => feed.sweep()),
    waiting: background.start('waiting-uploads', { every: WAITING_SWEEP_MS }, () => waiting.sweep()),
    retention: background.start('retention', { every: RETENTION_MS }, (signal) => applyRetention(retention, signal)),
  };
  const transferLog: TransferLog = await openTransferLog(options.paths.corner, (lines) => feed.hear(lines));
  const files: DirectoryFiles = directoryFiles({
    ...options,
    filesRoot,
    transit,
    durable,
    caughtUp: (id) => feed.heard(id),
    isHeld: (id, inode) => held.isHeldByAny(pidsOf(id), inode),
    isHeldNow: (id, inode) => pidsOf(id).some((pid) => filesHeldBy(pid).some((file) => file.inode === inode)),
    touch: (jail, path, ms) => recorder.look(jail, path, ms),
    missing: (jail, path) => recorder.look(jail, path, 0),
    recorded(rows) {
      logHistory(log, rows);
      options.recorded(rows);
    },
  });

  return {
    sockets: transferLog,
    files,
    adoptSessions: () => feed.adoptAll(),
    async coverAll() {
      await scanner.coverAll();
      await loops.retention.run();
    },
    watch: ({ id, sftp_username }) => watcher.add({ id, sftp_username }),
    unwatch: (jail) => watcher.remove(jail),
    scan: ({ id }) => scanner.request(id),
    ...settling,
    state: () => ({
      sessions: feed.sessions,
      transferLogRead: transferLog.listening(),
      watchesComplete: watcher.isComplete(),
    }),
    async close() {
      closing.abort();
      for (const each of Object.values(loops)) await each.close();
      await transferLog.close();
      await feed.close();
      await scanner.close();
      await watcher.close();
      await loop.close();
    },
  };
}

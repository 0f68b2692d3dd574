/** The recorder on a database and a folder, without sshd: lines of the log are given by the test. */
import { setTimeout as wait } from 'node:timers/promises';
import { lstatBeneath } from '../../src/foundation/base/beneath.ts';
import { type Clock, systemClock } from '../../src/foundation/base/clock.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { FileSyncer } from '../../src/arrivals/uploads/disk/file-syncer.ts';
import { bytesOf, type FilePath, type FilesRoot, type IsTemporary } from '../../src/arrivals/uploads/file-path.ts';
import type { Jail } from '../../src/arrivals/uploads/jails.ts';
import { observationOf, pathsToLookAt } from '../../src/arrivals/uploads/log/line-owners.ts';
import { type LogEvent, readEvent } from '../../src/arrivals/uploads/log/log-line.ts';
import type { HeldPath } from '../../src/arrivals/uploads/processes.ts';
import { Doubts } from '../../src/arrivals/uploads/record/doubts.ts';
import { Loop } from '../../src/arrivals/uploads/story/loop.ts';
import { Recorder } from '../../src/arrivals/uploads/story/recorder.ts';

/** How sshd logs an upload of `report.csv` with four bytes. */
export const REPORT = [
  'open "report.csv" flags WRITE,CREATE mode 0644',
  'close "report.csv" bytes read 0 written 4',
] as const;

export interface RecordingOptions {
  readonly database: Database;
  /** The node whose directories are recorded; '' when left out, the name of a single machine. */
  readonly node?: string;
  readonly filesRoot: FilesRoot;
  readonly clock?: Clock;
  readonly syncer?: FileSyncer;
  readonly isTemporary?: IsTemporary;
  /** Whether a process holds the file open, by the kernel's word. */
  readonly isHeld?: () => boolean;
  /** The files that a process holds open, by the kernel's word. */
  readonly heldBy?: (pid: number) => readonly HeldPath[];
  /** Whether the sessions' processes have died, and nobody has noticed yet. */
  readonly isDead?: () => boolean;
  /** How long the log takes to be heard, in ms. */
  readonly lag?: number;
  /** In ms; the machine's when left out. */
  readonly monotonic?: () => number;
  /** Called when a transaction begins. */
  readonly begun?: () => void;
  /** Called after the looks of a transaction, before it is committed. */
  readonly beforeCommit?: () => void;
  /** Called after each commit. What it throws is what the recorder hears of it. */
  readonly committed?: () => void;
}

export function recording(options: RecordingOptions) {
  const { database, filesRoot, clock = systemClock(), syncer = new FileSyncer({ isOn: true }) } = options;
  const {
    node = '',
    isTemporary = () => false,
    isHeld = () => false,
    isDead = () => false,
    lag = 0,
    monotonic = () => performance.now(),
    beforeCommit,
  } = options;
  const log = createLog('silent');
  const compared: string[] = [];
  /** What the listener keeps of each session. */
  const owners = new Map<number, { lastPaths: readonly FilePath[] | undefined }>();
  /** What the listener sees with a refusal. With other lines the story itself looks at the files, while a line is fresh. */
  function seenWith({ sftp_username }: Jail, pid: number, event: LogEvent) {
    const owner = owners.get(pid) ?? { lastPaths: undefined };
    owners.set(pid, owner);
    const paths = pathsToLookAt(event, owner);
    if (event.kind !== 'status' || paths === undefined) return {};
    return { seen: paths.map((path) => observationOf(lstatBeneath(filesRoot(sftp_username), bytesOf(path)))) };
  }
  const loop = new Loop(log);
  const recorder = new Recorder({
    world: {
      lstat: ({ sftp_username }, path) => lstatBeneath(filesRoot(sftp_username), bytesOf(path)),
      isHeldBy: () => isHeld() || isDead(),
      isGone: () => isDead(),
      heldBy: (_jail, pid) => options.heldBy?.(pid),
      timesHeldBy: () => (isHeld() ? 1 : 0),
      isHeldByAny: async () => isHeld(),
      sync: ({ sftp_username }, path) => syncer.sync(filesRoot(sftp_username), path),
      journalled: () => wait(lag, true),
      isDiskThere: () => true,
      monotonic,
      wait,
    },
    clock,
    log,
    node,
    isTemporary,
    async transact(work) {
      const written = await database.db.transaction().execute(async (tx) => {
        options.begun?.();
        const { value } = await work(tx);
        beforeCommit?.();
        return value;
      });
      options.committed?.();
      return written;
    },
    doubts: new Doubts({ journal: { at: -Infinity } }),
    recorded: () => undefined,
    compare: (id) => void compared.push(id),
    wake: () => loop.wake(),
  });
  loop.start(recorder);
  return {
    recorder,
    /** Directories that were to be compared with the disk. */
    compared,
    /** sshd says something of a session; its first line opens it. */
    say(jail: Jail, pid: number, ...texts: string[]): void {
      if (!recorder.known(jail.id)?.has(pid)) {
        const at = clock.now();
        recorder.storyOf(jail).begin({ by: { pid, address: '127.0.0.1' }, openedAt: at, born: undefined }, at);
      }
      for (const event of texts.map(readEvent))
        recorder.add(jail, { pid, event, at: clock.now(), isFresh: true, ...seenWith(jail, pid, event) });
    },
    /** The process has gone without a line. */
    gone(jail: Jail, pid: number): void {
      void recorder.read(jail.id).then(() => recorder.known(jail.id)?.end(pid, clock.now(), 'killed'));
    },
    /** Resolves when what was said has been acted upon. */
    async drained(): Promise<void> {
      do await wait(5);
      while (!recorder.isDrained);
    },
    close: () => loop.close(),
    [Symbol.asyncDispose]: () => loop.close(),
  };
}

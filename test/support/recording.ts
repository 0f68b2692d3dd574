/** The ledger and the recorder on a database and a folder, without sshd: lines of the log are given by the test. */
import { setTimeout as wait } from 'node:timers/promises';
import { lstatBeneath } from '../../src/beneath.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import type { Database } from '../../src/db/open.ts';
import { createLog } from '../../src/log.ts';
import { Durable } from '../../src/uploads/disk/durable.ts';
import { bytesOf, type FilesRoot, type IsTemporary } from '../../src/uploads/file-path.ts';
import type { Jail } from '../../src/uploads/jails.ts';
import { Interpreter } from '../../src/uploads/log/interpret.ts';
import { readEvent } from '../../src/uploads/log/log-line.ts';
import { Sessions } from '../../src/uploads/log/sessions.ts';
import { Doubts } from '../../src/uploads/record/doubts.ts';
import { startRecording } from '../../src/uploads/record/start.ts';

export interface RecordingOptions {
  readonly database: Database;
  /** Whose directories are recorded; '' when left out, as the only machine is called. */
  readonly node?: string;
  readonly filesRoot: FilesRoot;
  readonly clock?: Clock;
  readonly durable?: Durable;
  readonly isTemporary?: IsTemporary;
  /** Whether a process holds the file open, by the kernel's word. */
  readonly isHeld?: () => boolean;
  /** How long the log takes to be heard, in ms. */
  readonly lag?: number;
  /** Called after the looks of a transaction, before it is committed. */
  readonly beforeCommit?: () => void;
  /** Called after each commit. What it throws is what the recorder hears of it. */
  readonly committed?: () => void;
}

export function recording(options: RecordingOptions) {
  const { database, filesRoot, clock = systemClock(), durable = new Durable({ isOn: true }) } = options;
  const { node = '', isTemporary = () => false, isHeld = () => false, lag = 0, beforeCommit } = options;
  const log = createLog('silent');
  const sessions = new Sessions();
  const rescanned: string[] = [];
  const { ledger, recorder, schedule, unmatched } = startRecording({
    node,
    clock,
    log,
    durable,
    filesRoot,
    isTemporary,
    exists: isHeld,
    livePids: (id) => sessions.pidsOf(id),
    isHeld: async () => isHeld(),
    caughtUp: () => wait(lag),
    rescan: (id) => void rescanned.push(id),
    doubts: new Doubts(undefined),
    async transact(work) {
      const written = await database.db.transaction().execute(async (tx) => {
        const { value } = await work(tx);
        beforeCommit?.();
        return value;
      });
      options.committed?.();
      return written;
    },
    recorded: () => undefined,
  });
  const interpreter = new Interpreter({
    ledger,
    sessions,
    lstat: (jail, path) => lstatBeneath(filesRoot(jail.sftp_username), bytesOf(path)),
    unclear: ({ jail }) => void rescanned.push(jail.id),
    note: () => undefined,
    ended: () => undefined,
  });
  return {
    ledger,
    recorder,
    sessions,
    interpreter,
    schedule,
    unmatched,
    rescanned,
    /** sshd says something of a session; its first line opens it. */
    say(jail: Jail, pid: number, ...texts: string[]): void {
      if (!sessions.get(jail.id, pid)) interpreter.begin(pid, '127.0.0.1', jail, clock.now());
      for (const text of texts) {
        const session = sessions.get(jail.id, pid);
        if (session) interpreter.interpret(session, readEvent(text), clock.now());
      }
    },
    /** Records what is due, and what is waited for at most so long, in ms. */
    async [Symbol.asyncDispose]() {
      await recorder.close();
      schedule.close();
    },
  };
}

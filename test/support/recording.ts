/** The ledger and the recorder on a database and a folder, without sshd: lines of the log are given by the test. */
import { lstatBeneath } from '../../src/beneath.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import type { Database } from '../../src/db/open.ts';
import { createLog } from '../../src/log.ts';
import { createDurable, type Durable } from '../../src/uploads/disk/durable.ts';
import { bytesOf, type FilesRoot } from '../../src/uploads/file-path.ts';
import { createInterpreter } from '../../src/uploads/log/interpret.ts';
import { readEvent } from '../../src/uploads/log/log-line.ts';
import { Sessions } from '../../src/uploads/log/sessions.ts';
import { createLedger, type Place } from '../../src/uploads/record/ledger.ts';
import { createRecorder } from '../../src/uploads/record/recorder.ts';
import { Strays } from '../../src/uploads/record/strays.ts';
import type { IsTemporary } from '../../src/uploads/temp-names.ts';

export interface RecordingOptions {
  readonly database: Database;
  readonly filesRoot: FilesRoot;
  readonly clock?: Clock;
  readonly durable?: Durable;
  readonly isTemporary?: IsTemporary;
  /** Whether a process holds the file open, by the kernel's word. */
  readonly isHeld?: () => boolean;
  readonly isAlive?: () => boolean;
}

export function recording(options: RecordingOptions) {
  const { database, filesRoot, clock = systemClock(), durable = createDurable() } = options;
  const { isTemporary = () => false, isHeld = () => false, isAlive = () => true } = options;
  const log = createLog('silent');
  const sessions = new Sessions();
  const strays = new Strays();
  const rescanned: string[] = [];
  const ledger = createLedger({
    isTemporary,
    stillWrites: ({ isDoubtful }) => (isDoubtful ? isHeld() : isAlive()),
    stray: (directoryId, close) => strays.addClose(directoryId, close),
    onDue: () => recorder.wake(),
  });
  const interpreter = createInterpreter({
    ledger,
    sessions,
    lstat: (place, path) => lstatBeneath(filesRoot(place.sftp_username), bytesOf(path)),
    unclear: ({ place }) => void rescanned.push(place.id),
    note: () => undefined,
    over: () => undefined,
  });
  const recorder = createRecorder({
    clock,
    log,
    ledger,
    durable,
    filesRoot,
    isTemporary,
    strays,
    isLive: (id, pid) => sessions.isLive(id, pid),
    livePid: (id) => sessions.pidsOf(id)[0],
    isHeld: async () => isHeld(),
    caughtUp: async () => undefined,
    rescan: (id) => void rescanned.push(id),
    transact: (work) => database.db.transaction().execute(async (tx) => (await work(tx)).value),
    recorded: () => undefined,
  });
  return {
    ledger,
    recorder,
    sessions,
    interpreter,
    rescanned,
    /** sshd says something of a session; its first line opens it. */
    say(place: Place, pid: number, ...texts: string[]): void {
      if (!sessions.get(pid)) interpreter.begin(pid, '127.0.0.1', place, clock.now());
      for (const text of texts) {
        const session = sessions.get(pid);
        if (session) interpreter.interpret(session, readEvent(text), clock.now());
      }
    },
    /** Records what is due, and what is waited for at most so long, in ms. */
    async [Symbol.asyncDispose]() {
      await recorder.close();
      ledger.close();
    },
  };
}

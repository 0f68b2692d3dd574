/** Follows the journal: records in, evidence out, in the order in which sshd logged the lines. */
import type { Clock, Micros } from '../../clock.ts';
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import { LOG_LAG } from '../record/file-stat.ts';
import type { Schedule } from '../record/schedule.ts';
import type { Unmatched } from '../record/unmatched.ts';
import type { Interpreter, KeptSession } from './interpret.ts';
import type { RecordConsumer } from './journal-reader.ts';
import type { JournalRecord, Sighting } from './journal-record.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import { Session, type Sessions } from './sessions.ts';
import type { UnheardSessions } from './unheard-sessions.ts';

/** Looks of one directory that are due or under way beyond which its records wait. */
const BACKLOG = 500;

export interface FollowerOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly jails: Pick<JailQueries, 'byUsername'>;
  readonly schedule: Pick<Schedule, 'pending' | 'isSettled'>;
  readonly unmatched: Pick<Unmatched, 'isEmpty'>;
  readonly sessions: Sessions;
  readonly interpreter: Interpreter;
  readonly unheard: Pick<UnheardSessions, 'adopt' | 'resume' | 'check'>;
  /** A session of that directory has begun. */
  live(jail: Jail): void;
  /** An earlier process may have recorded what happened until then. */
  repeated(at: Micros): void;
  /** Lines until then are missing. */
  lost(jail: Jail, until: Micros): void;
}

export function createFollower(options: FollowerOptions): RecordConsumer {
  const { clock, interpreter, jails, live, log, schedule, sessions, unheard, unmatched } = options;

  const isFresh = ({ at }: JournalRecord): boolean => Math.abs(clock.now() - at) < LOG_LAG;

  function follow(jail: Jail, record: JournalRecord, isRepeated: boolean): Promise<void> | undefined {
    if (isRepeated) options.repeated(record.at);
    const { at, pid, text, born } = record;
    const event = readEvent(text);
    if (event.kind === 'session-opened') {
      // An earlier process of that number died without a word.
      interpreter.end(jail, pid, at, false);
      live(jail);
      interpreter.begin(pid, event.address, jail, at, born);
      return undefined;
    }
    if (event.kind === 'session-closed') {
      interpreter.end(jail, pid, at, true);
      return undefined;
    }
    const session = sessions.get(jail.id, pid);
    if (!session) return adopt(jail, record, event);
    interpreter.interpret(session, event, at, seenBy(record), isFresh(record));
    return undefined;
  }

  /** A process of which nothing was heard before: its session began before there was a journal. */
  async function adopt(jail: Jail, record: JournalRecord, event: LogEvent): Promise<void> {
    const { at, pid, address } = record;
    await unheard.adopt(pid);
    let session = sessions.get(jail.id, pid);
    if (!session) {
      // It has ended since.
      session = new Session(jail, { pid, address }, { openedAt: undefined, serves: true });
      live(jail);
      interpreter.adopt(session, []);
    }
    interpreter.interpret(session, event, at, seenBy(record), isFresh(record));
  }

  return {
    jailOf: (user) => jails.byUsername(user),
    follow,
    restore(jail, state) {
      live(jail);
      interpreter.restore(jail, state as readonly KeptSession[]);
    },
    restored: (jail) =>
      unheard.check(jail).catch((error: unknown) => log.warn({ err: error }, 'cannot look at the handles of sessions')),
    lost(jail, until) {
      log.warn({ username: jail.sftp_username }, 'lines of sshd were lost: the disk tells what happened');
      unheard.resume(jail.id);
      options.lost(jail, until);
    },
    isBusy: (id) => schedule.pending(id) > BACKLOG,
    isDecided: (id, isUrgent) => schedule.isSettled(id) && (isUrgent === true || unmatched.isEmpty(id)),
    state(jail) {
      const kept = interpreter.kept(jail.id);
      return kept.length > 0 ? kept : undefined;
    },
    failed: (error) => log.error({ err: error }, 'cannot follow a line of the transfer log'),
  };
}

/** What lay at the path that the event is about; undefined to look now. */
function seenBy({ seen }: JournalRecord): Sighting | null | undefined {
  return Array.isArray(seen) ? (seen as readonly (Sighting | null)[]).at(-1) : (seen as Sighting | null | undefined);
}

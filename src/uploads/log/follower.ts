/** Follows the transfer log: lines in, evidence out, in the order in which sshd logged them. */
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import type { Schedule } from '../record/schedule.ts';
import type { Interpreter } from './interpret.ts';
import { Lanes } from './lanes.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import { Session, type Sessions } from './sessions.ts';
import type { SpooledLine } from './spool.ts';
import type { Line } from './transfer-log-worker.ts';
import type { UnheardSessions } from './unheard-sessions.ts';
import type { WriteBarrier } from './write-barrier.ts';

/** Looks of one directory that are due or under way beyond which its lines wait. */
export const BACKLOG = 500;

export interface FollowerOptions {
  readonly log: Log;
  readonly jails: Pick<JailQueries, 'byUsername'>;
  readonly schedule: Pick<Schedule, 'pending'>;
  readonly sessions: Sessions;
  readonly interpreter: Interpreter;
  readonly unheard: UnheardSessions;
  readonly barrier: WriteBarrier;
  /** Resolves when enough of the lines has been handed over that were kept while the database was away. */
  passed?(directoryId: string): Promise<void>;
  /** A session of that directory has begun. */
  live(jail: Jail): void;
}

export class Follower {
  readonly #options: FollowerOptions;
  readonly #lanes: Lanes;

  constructor(options: FollowerOptions) {
    this.#options = options;
    const { log, sessions, schedule, unheard } = options;
    this.#lanes = new Lanes({
      directoryOf: (pid) => sessions.get(pid)?.jail.id,
      follow: (line) => this.#follow(line),
      failed: (error) => log.error({ err: error }, 'cannot follow a line of the transfer log'),
      isBusy: (id) => schedule.pending(id) > BACKLOG,
      lost: (id) => unheard.resume(id),
    });
  }

  follow(lines: readonly Line[]): void {
    for (const line of lines) {
      if (line.pid === 0) this.#options.barrier.cameBack(line.text);
      else this.#lanes.push(line);
    }
  }

  /** Resolves when what sshd had logged about the directory before the call has been followed. */
  async caughtUp(directoryId: string): Promise<void> {
    await this.#options.barrier.passed();
    await this.#options.passed?.(directoryId);
    await this.followed(directoryId);
  }

  /** The same for what was handed to `follow` before the call. */
  followed(directoryId: string): Promise<void> {
    return this.#lanes.passed(directoryId);
  }

  /** Lines that wait behind which one of that process would. */
  waiting(pid: number): number {
    return this.#lanes.waiting(pid);
  }

  async close(): Promise<void> {
    await this.#lanes.running;
  }

  #follow({ at, pid, text, spooled }: Line & Partial<SpooledLine>): Promise<void> | undefined {
    const { interpreter } = this.#options;
    const event = readEvent(text);
    const session = this.#sessionOf(pid, spooled);
    if (event.kind === 'session-opened') return this.#begin(pid, event, at);
    if (event.kind === 'session-closed') interpreter.end(pid, at);
    else if (session) interpreter.interpret(session, event, at, spooled?.seen);
    else return this.#adopt(pid, event, at, spooled);
    return undefined;
  }

  async #begin(pid: number, { username, address }: LogEvent & { kind: 'session-opened' }, at: number): Promise<void> {
    const { interpreter, jails, live } = this.#options;
    interpreter.end(pid, at); // an earlier process of that number died without a word
    const jail = await jails.byUsername(username);
    if (!jail) return;
    live(jail);
    interpreter.begin(pid, address, jail, at);
  }

  /** A process of which nothing was heard before: a session that began before this process, or none of ours. */
  async #adopt(pid: number, event: LogEvent, at: number, spooled: SpooledLine['spooled'] | undefined): Promise<void> {
    const session = spooled ? await this.#resume(pid, spooled) : await this.#options.unheard.adopt(pid);
    if (session) this.#options.interpreter.interpret(session, event, at, spooled?.seen);
  }

  /** The session that a process served when it said a line that was kept: the number may be another's by now. */
  async #resume(pid: number, { user, address }: SpooledLine['spooled']): Promise<Session | undefined> {
    const { interpreter, jails, live } = this.#options;
    const jail = await jails.byUsername(user);
    if (!jail) return undefined;
    live(jail);
    const session = new Session(jail, { pid, address }, { openedAt: undefined, serves: true });
    interpreter.adopt(session, []);
    return session;
  }

  #sessionOf(pid: number, spooled: SpooledLine['spooled'] | undefined): Session | undefined {
    const session = this.#options.sessions.get(pid);
    return spooled && session?.jail.sftp_username !== spooled.user ? undefined : session;
  }
}

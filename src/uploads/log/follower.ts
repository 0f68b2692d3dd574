/** Follows the transfer log: lines in, evidence out, in the order in which sshd logged them. */
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import type { Schedule } from '../record/schedule.ts';
import type { Interpreter } from './interpret.ts';
import { Lanes } from './lanes.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import type { Sessions } from './sessions.ts';
import type { Line } from './transfer-log-worker.ts';
import type { UnheardSessions } from './unheard-sessions.ts';
import type { WriteBarrier } from './write-barrier.ts';

/** Looks of one directory that are due or under way beyond which its lines wait. */
const BACKLOG = 500;

export interface FollowerOptions {
  readonly log: Log;
  readonly jails: Pick<JailQueries, 'byUsername'>;
  readonly schedule: Pick<Schedule, 'pending'>;
  readonly sessions: Sessions;
  readonly interpreter: Interpreter;
  readonly unheard: UnheardSessions;
  readonly barrier: WriteBarrier;
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
    await this.#lanes.passed(directoryId);
  }

  async close(): Promise<void> {
    await this.#lanes.running;
  }

  #follow({ at, pid, text }: Line): Promise<void> | undefined {
    const { interpreter, sessions } = this.#options;
    const event = readEvent(text);
    const session = sessions.get(pid);
    if (event.kind === 'session-opened') return this.#begin(pid, event, at);
    if (event.kind === 'session-closed') interpreter.end(pid, at);
    else if (session) interpreter.interpret(session, event, at);
    else return this.#adopt(pid, event, at);
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
  async #adopt(pid: number, event: LogEvent, at: number): Promise<void> {
    const session = await this.#options.unheard.adopt(pid);
    if (session) this.#options.interpreter.interpret(session, event, at);
  }
}

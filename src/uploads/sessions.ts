/** The SFTP sessions that are live, by the process that serves them, and the directory each belongs to. */

import type { Micros } from '../clock.ts';
import type { Moved } from './open-handles.ts';

export interface Session {
  readonly pid: number;
  readonly directoryId: string;
  readonly username: string;
  /** The client's address, or '' when the session began before this process. */
  readonly address: string;
  /** When it was opened; undefined when it began before this process. */
  readonly openedAt: Micros | undefined;
  /** Whether this process serves requests. sshd's own process beside it has the same UID. */
  serves: boolean;
  /** What it asked for last and sshd has not answered in the log: a refusal may be the answer to that. */
  unanswered: 'open' | 'change' | undefined;
  /** The handles whose files its last request renamed, unless sshd refuses it. */
  moved: readonly Moved[];
}

export class Sessions {
  readonly #byPid = new Map<number, Session>();
  readonly #byDirectory = new Map<string, Set<number>>();

  add(session: Session): void {
    this.remove(session.pid); // the number may have been another process's before
    this.#byPid.set(session.pid, session);
    const pids = this.#byDirectory.get(session.directoryId) ?? new Set();
    this.#byDirectory.set(session.directoryId, pids.add(session.pid));
  }

  get(pid: number): Session | undefined {
    return this.#byPid.get(pid);
  }

  remove(pid: number): void {
    const session = this.#byPid.get(pid);
    if (!session) return;
    this.#byPid.delete(pid);
    const pids = this.#byDirectory.get(session.directoryId);
    pids?.delete(pid);
    if (pids?.size === 0) this.#byDirectory.delete(session.directoryId);
  }

  /** The processes that serve the directory's sessions. */
  pidsOf(directoryId: string): ReadonlySet<number> {
    return this.#byDirectory.get(directoryId) ?? NONE;
  }

  /** How many of them serve requests. */
  serving(): number {
    return [...this.#byPid.values()].filter(({ serves }) => serves).length;
  }

  all(): Iterable<Session> {
    return this.#byPid.values();
  }
}

const NONE: ReadonlySet<number> = new Set();

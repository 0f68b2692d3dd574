/** The SFTP sessions that are live, by the process that serves them, and the directory each belongs to. */
import type { Micros } from '../../clock.ts';
import type { Jail } from '../jails.ts';
import type { BySession, Handle } from '../record/evidence.ts';
import type { Change } from '../record/namespace.ts';
import { Reads } from './reads.ts';

/** What a session asked for last, which sshd's next refusal may be the answer to. */
export type Asked =
  | { readonly kind: 'open'; readonly handle: Handle }
  | { readonly kind: 'change'; readonly change: Change }
  | { readonly kind: 'other' };

/** Opens that seem to have failed and are remembered of one session, in case that they did not. */
const DOUBTFUL_LIMIT = 50;

/** For so long after a session was taken up, the log may tell of what the kernel has told of it already, in ms. */
const LATE = 5000;

export class Session {
  readonly jail: Jail;
  readonly by: BySession;
  /** When it was opened; undefined when it began before this process. */
  readonly openedAt: Micros | undefined;
  /** Whether this process serves requests. sshd's own process beside it has the same UID. */
  serves: boolean;
  asked: Asked | undefined;
  /** sshd has said why it will refuse the request that it refuses next. */
  isComplaining = false;
  /** A rename or a removal of its was undone: names may be wrong that others used meanwhile. */
  hasUndone = false;
  /** A write through a handle up to this order may have been refused without a word. */
  doubtedUpTo = 0;
  readonly reads = new Reads();
  /** By the name that sshd logs, oldest first; '' for those that were open before the log was. */
  readonly #handles = new Map<string, Handle[]>();
  readonly #doubtful: Handle[] = [];
  /** By the monotonic clock, in ms. */
  readonly #since = performance.now();

  constructor(jail: Jail, by: BySession, { openedAt, serves }: Pick<Session, 'openedAt' | 'serves'>) {
    this.jail = jail;
    this.by = by;
    this.openedAt = openedAt;
    this.serves = serves;
  }

  add(handle: Handle): void {
    this.#handles.set(handle.name ?? '', [...this.opened(handle.name ?? ''), handle]);
  }

  /** The handles that were opened with that name. */
  opened(name: string): readonly Handle[] {
    return this.#handles.get(name) ?? [];
  }

  /** The same handle as the kernel has told of it, when its line came later than that. */
  adopted({ entry }: Handle): Handle | undefined {
    if (!entry || performance.now() - this.#since > LATE) return undefined;
    return this.opened('').find((handle) => handle.entry === entry);
  }

  /** Removes the handle that a close names. One whose open seems to have failed comes last. */
  take(name: string, path: string | undefined): Handle | undefined {
    const same = this.opened(name);
    const meant = same.find(({ isDoubtful }) => !isDoubtful) ?? same[0];
    const found = meant ?? this.opened('').find((handle) => handle.entry?.path === path);
    if (found) this.forget(found);
    return found;
  }

  forget(handle: Handle): void {
    const key = handle.name ?? '';
    const left = this.opened(key).filter((other) => other !== handle);
    if (left.length > 0) this.#handles.set(key, left);
    else this.#handles.delete(key);
  }

  /** The open seems to have failed. Returns a handle that need not be remembered any longer. */
  doubt(handle: Handle): Handle | undefined {
    handle.isDoubtful = true;
    this.#doubtful.push(handle);
    return this.#doubtful.length > DOUBTFUL_LIMIT ? this.#doubtful.shift() : undefined;
  }

  all(): Handle[] {
    return [...this.#handles.values()].flat();
  }
}

export class Sessions {
  readonly #byPid = new Map<number, Session>();
  readonly #pids = new Map<string, Set<number>>();

  add(session: Session): void {
    const { pid } = session.by;
    this.remove(pid); // the number may have been another process's before
    this.#byPid.set(pid, session);
    const { id } = session.jail;
    this.#pids.set(id, (this.#pids.get(id) ?? new Set()).add(pid));
  }

  get(pid: number): Session | undefined {
    return this.#byPid.get(pid);
  }

  remove(pid: number): void {
    const session = this.#byPid.get(pid);
    if (!session) return;
    this.#byPid.delete(pid);
    const { id } = session.jail;
    this.#pids.get(id)?.delete(pid);
    if (this.#pids.get(id)?.size === 0) this.#pids.delete(id);
  }

  /** The processes that serve the directory's sessions. */
  pidsOf(directoryId: string): number[] {
    return [...(this.#pids.get(directoryId) ?? [])];
  }

  all(): Session[] {
    return [...this.#byPid.values()];
  }
}

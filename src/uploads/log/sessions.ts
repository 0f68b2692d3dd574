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

type SessionStart = Pick<Session, 'openedAt' | 'serves'> & { readonly born?: string | undefined };

export class Session {
  readonly jail: Jail;
  readonly by: BySession;
  /** When it was opened; undefined when it began before this process. */
  readonly openedAt: Micros | undefined;
  /** When its process began, as the kernel counts; undefined when nobody looked. */
  readonly born: string | undefined;
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

  constructor(jail: Jail, by: BySession, { openedAt, serves, born }: SessionStart) {
    this.jail = jail;
    this.by = by;
    this.openedAt = openedAt;
    this.born = born;
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

/** A process's number may have been another user's before. */
export class Sessions {
  readonly #byDirectory = new Map<string, Map<number, Session>>();

  add(session: Session): void {
    const { id } = session.jail;
    const own = this.#byDirectory.get(id) ?? new Map<number, Session>();
    this.#byDirectory.set(id, own);
    own.set(session.by.pid, session);
  }

  get(directoryId: string, pid: number): Session | undefined {
    return this.#byDirectory.get(directoryId)?.get(pid);
  }

  remove(directoryId: string, pid: number): void {
    const own = this.#byDirectory.get(directoryId);
    own?.delete(pid);
    if (own?.size === 0) this.#byDirectory.delete(directoryId);
  }

  /** The processes that serve the directory's sessions. */
  pidsOf(directoryId: string): number[] {
    return [...(this.#byDirectory.get(directoryId)?.keys() ?? [])];
  }

  of(directoryId: string): Session[] {
    return [...(this.#byDirectory.get(directoryId)?.values() ?? [])];
  }

  all(): Session[] {
    return [...this.#byDirectory.values()].flatMap((own) => [...own.values()]);
  }
}

/** The SFTP sessions that are live, by the process that serves them, and the directory each belongs to. */
import type { Micros } from '../../clock.ts';
import type { BySession } from '../record/evidence.ts';
import type { Handle } from '../record/handle.ts';
import type { Place } from '../record/ledger.ts';
import type { Change } from '../record/namespace.ts';

/** What a session asked for last, and what sshd has not answered in the log: a refusal may be the answer to that. */
export type Asked =
  | { readonly kind: 'open'; readonly handle: Handle }
  | { readonly kind: 'change'; readonly change: Change }
  | { readonly kind: 'other' };

export class Session {
  readonly pid: number;
  readonly place: Place;
  readonly by: BySession;
  /** When it was opened; undefined when it began before this process. */
  readonly openedAt: Micros | undefined;
  /** Whether this process serves requests. sshd's own process beside it has the same UID. */
  serves: boolean;
  asked: Asked | undefined;
  /** sshd has said why the request that it refuses next is refused. */
  isComplaining = false;
  /** Handles up to this order may have met a write that was refused without a word. */
  doubtedUpTo = 0;
  /** By the name that sshd logs, oldest first; '' for those that were open before the log was. */
  readonly handles = new Map<string, Handle[]>();
  #doubtful: Handle[] = [];

  constructor(place: Place, by: BySession, { openedAt, serves }: { openedAt: Micros | undefined; serves: boolean }) {
    this.place = place;
    this.pid = by.pid;
    this.by = by;
    this.openedAt = openedAt;
    this.serves = serves;
  }

  add(handle: Handle): void {
    const same = this.handles.get(handle.name ?? '') ?? [];
    same.push(handle);
    this.handles.set(handle.name ?? '', same);
  }

  /** Takes the handle away that a close names. One whose open was refused has nothing to close, if there is another. */
  take(name: string, path: string | undefined): Handle | undefined {
    const same = this.handles.get(name) ?? [];
    const meant = same.find(({ isDoubtful }) => !isDoubtful) ?? same[0];
    const found = meant ?? (this.handles.get('') ?? []).find((handle) => handle.entry?.path === path);
    if (found) this.forget(found);
    return found;
  }

  forget(handle: Handle): void {
    const key = handle.name ?? '';
    const left = (this.handles.get(key) ?? []).filter((other) => other !== handle);
    if (left.length > 0) this.handles.set(key, left);
    else this.handles.delete(key);
  }

  /** The open seems to have failed. Returns one that need not be remembered any longer. */
  doubt(handle: Handle): Handle | undefined {
    handle.isDoubtful = true;
    this.#doubtful.push(handle);
    return this.#doubtful.length > DOUBTFUL_LIMIT ? this.#doubtful.shift() : undefined;
  }

  all(): Handle[] {
    return [...this.handles.values()].flat();
  }
}

/** Refused opens that a session's list keeps, in case that they were not: nobody has to remember a million of them. */
const DOUBTFUL_LIMIT = 50;

export class Sessions {
  readonly #byPid = new Map<number, Session>();
  readonly #byDirectory = new Map<string, Map<number, Session>>();

  add(session: Session): void {
    this.remove(session.pid); // the number may have been another process's before
    this.#byPid.set(session.pid, session);
    const { id } = session.place;
    const own = this.#byDirectory.get(id) ?? new Map<number, Session>();
    this.#byDirectory.set(id, own.set(session.pid, session));
  }

  get(pid: number): Session | undefined {
    return this.#byPid.get(pid);
  }

  remove(pid: number): void {
    const session = this.#byPid.get(pid);
    if (!session) return;
    this.#byPid.delete(pid);
    const own = this.#byDirectory.get(session.place.id);
    own?.delete(pid);
    if (own?.size === 0) this.#byDirectory.delete(session.place.id);
  }

  /** The processes that serve the directory's sessions. */
  pidsOf(directoryId: string): number[] {
    return [...(this.#byDirectory.get(directoryId)?.keys() ?? [])];
  }

  isLive(directoryId: string, pid: number): boolean {
    return this.#byDirectory.get(directoryId)?.has(pid) ?? false;
  }

  /** How many of them serve requests. */
  serving(): number {
    return this.all().filter(({ serves }) => serves).length;
  }

  all(): Session[] {
    return [...this.#byPid.values()];
  }
}

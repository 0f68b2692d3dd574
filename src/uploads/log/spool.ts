/**
 * What sshd logs while PostgreSQL is away: kept on the disk, and followed in order once the database is back, if need be by
 * the next process. With SQLite there is none of it.
 *
 * Promise: an upload is told once, also when its file was removed meanwhile. Where the disk and some memory are full, a
 * scan tells of the files that are left.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import { DatabaseAway, isUnavailable } from '../../db/away.ts';
import { errorMessage } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Jail, JailQueries } from '../jails.ts';
import type { Schedule } from '../record/schedule.ts';
import { BACKLOG, type Follower } from './follower.ts';
import type { Speakers } from './speakers.ts';
import { type KeptLine, SpoolQueues } from './spool-queues.ts';
import type { Line } from './transfer-log-worker.ts';
import type { UnheardSessions } from './unheard-sessions.ts';

/** What was followed shortly before the database's absence was noticed may not be recorded: the next process needs it. */
const RECENT = { ms: 15_000, lines: 20_000 };

/** So many lines further on, a look knows enough of what the log says next. */
const AHEAD = 1000;

/** Lines that wait to be followed, beyond which no more are handed on. */
const HANDED = 128;

/** In ms: whether the database is back; whether lines have been followed. */
const AWAY_CHECK = 500;
const CHECK = 10;
/** How long to wait for the database, in ms. */
const PATIENCE = 10_000;

const NO_ROOM =
  'the spool takes no more: some lines are kept in memory; of uploads beyond that, those that are removed are not announced';

/** A line that was kept. */
export interface SpooledLine extends Line {
  readonly spooled: { readonly user: string } & Pick<KeptLine, 'address' | 'seen'>;
}

export interface SpoolOptions {
  readonly folder: string;
  readonly speakers: Speakers;
  readonly log: Log;
  /** Ends it. */
  readonly signal: AbortSignal;
  isAway(): boolean;
  /** Asks until the database answers. */
  readonly jails: Pick<JailQueries, 'byUsername'>;
  readonly follower: Pick<Follower, 'follow' | 'followed' | 'waiting'>;
  readonly schedule: Pick<Schedule, 'pending' | 'isSettled'>;
  readonly unheard: Pick<UnheardSessions, 'resume' | 'adoptAll'>;
  scan(directoryId: string): void;
}

/** One user's part. */
interface Part {
  jail?: Jail | undefined;
  /** Whether some lines wait in the queue, all have been handed on, or all have been followed. */
  state: 'waiting' | 'handed' | 'followed';
  handed: number;
  /** Who said the last line that was handed on. */
  pid: number;
  /** Who waits until so many have been. */
  waiters: { readonly for: number; readonly resolve: () => void }[];
}

export class Spool {
  readonly #options: SpoolOptions;
  readonly #queues: SpoolQueues;
  readonly #parts = new Map<string, Part>();
  /** Users of whose lines an earlier process may have followed some. */
  readonly #repeated: Set<string>;
  /** Directories to be scanned. */
  readonly #scans = new Set<string>();
  #recent: Line[] = [];
  #isAway = false;
  /** The disk has refused a line since the database has gone. */
  #isFull = false;
  #running: Promise<void> | undefined;

  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#queues = new SpoolQueues(options.folder, (error) => {
      if (!this.#isFull) options.log.error({ reason: errorMessage(error) }, NO_ROOM);
      this.#isFull = true;
    });
    this.#repeated = new Set(this.#queues.users());
    for (const user of this.#repeated) this.#partOf(user).state = 'waiting';
    options.signal.addEventListener('abort', () => this.#parts.forEach((part) => release(part, Infinity)));
    if (this.#repeated.size > 0) this.#wake();
  }

  /** Of what sshd says some goes on to be followed, some is kept for later. */
  take(lines: readonly Line[]): void {
    const { speakers, follower, isAway } = this.#options;
    if (isAway()) this.#begin();
    const isKept = (line: Line): boolean => {
      const user = line.pid === 0 ? undefined : speakers.of(line)?.user;
      return user !== undefined && (this.#isAway || this.#parts.get(user)?.state === 'waiting');
    };
    const { true: kept = [], false: live = [] } = Object.groupBy(lines, (line) => String(isKept(line)));
    for (const [user, own] of speakers.byUser(kept)) {
      this.#queues.add(user, own);
      this.#partOf(user).state = 'waiting';
    }
    this.#remember(live);
    if (live.length > 0) follower.follow(live);
  }

  /**
   * Resolves when so much of the directory's has been followed that what a look finds can be explained.
   * @throws {DatabaseAway} when the database stays away.
   */
  async passed(directoryId: string): Promise<void> {
    const { isAway, signal } = this.#options;
    const isUnknown = (): boolean => isAway() || this.#unread().some(({ jail }) => !jail);
    const over = performance.now() + PATIENCE;
    while (this.#unread().length > 0 && isUnknown() && !signal.aborted) {
      if (performance.now() > over) throw new DatabaseAway(new Error('what sshd logged waits for it'));
      await sleep(AWAY_CHECK / 10, signal);
    }
    const part = this.#unread().find(({ jail }) => jail?.id === directoryId);
    if (!part || signal.aborted) return;
    await new Promise<void>((resolve) => part.waiters.push({ for: part.handed + AHEAD, resolve }));
  }

  /** Whether what happens in that jail may be told by a line that is yet to be followed. */
  isBehind({ sftp_username: user }: Pick<Jail, 'sftp_username'>): boolean {
    return this.#options.isAway() || this.#parts.get(user)?.state === 'waiting';
  }

  /** Has the directory scanned when its lines have been followed: they may explain what is found. */
  scan(directoryId: string): void {
    this.#scans.add(directoryId);
    this.#wake();
  }

  /** Whether what is followed may have been recorded by an earlier process. */
  isRepeating(): boolean {
    return this.#repeated.size > 0;
  }

  /** Resolves when nothing is left to be followed. */
  async allRead(): Promise<void> {
    const { signal } = this.#options;
    while (this.#unread().length > 0 && !signal.aborted) await sleep(CHECK, signal);
  }

  /** After the signal. */
  async close(): Promise<void> {
    await this.#running;
  }

  /** The database has gone. */
  #begin(): void {
    if (this.#isAway) return;
    this.#isAway = true;
    this.#isFull = false;
    const { speakers, log } = this.#options;
    log.warn('the database is away: what sshd logs is kept in the spool');
    for (const [user, lines] of speakers.byUser(this.#recent)) {
      if (this.#partOf(user).state !== 'waiting') this.#queues.addFollowed(user, lines);
    }
    this.#recent = [];
    this.#wake();
  }

  #remember(lines: readonly Line[]): void {
    this.#recent.push(...lines.filter(({ pid }) => pid !== 0));
    const old = (lines.at(-1)?.at ?? 0) - RECENT.ms * 1000;
    while (this.#recent.length > RECENT.lines || (this.#recent[0]?.at ?? old) < old) this.#recent.shift();
  }

  #partOf(user: string): Part {
    const part = this.#parts.get(user) ?? { state: 'followed', handed: 0, pid: 0, waiters: [] };
    this.#parts.set(user, part);
    return part;
  }

  #unread(): Part[] {
    return [...this.#parts.values()].filter(({ state }) => state === 'waiting');
  }

  #wake(): void {
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    const { isAway, log, signal } = this.#options;
    await Promise.resolve(); // so that it has begun before it ends
    while (!signal.aborted && (this.#isAway || this.#parts.size > 0 || this.#scans.size > 0)) {
      try {
        if (isAway()) this.#begin();
        else this.#isAway = false;
        if (this.#isAway) await sleep(AWAY_CHECK, signal);
        else if (!(await this.#round())) await sleep(CHECK, signal);
      } catch (error) {
        if (!isUnavailable(error)) log.error({ err: error }, 'cannot follow what is in the spool, trying again');
        await sleep(AWAY_CHECK, signal);
      }
    }
    this.#running = undefined;
  }

  /** A turn for everybody. Returns whether something was handed on. */
  async #round(): Promise<boolean> {
    const { jails, schedule, scan } = this.#options;
    let hasHanded = false;
    for (const [user, part] of this.#parts) {
      part.jail ??= await jails.byUsername(user);
      if (!part.jail || (part.state === 'followed' && schedule.isSettled(part.jail.id))) this.#forget(user, part);
      else if (part.state === 'waiting' && this.#hand(user, part, part.jail)) hasHanded = true;
      await setImmediate();
    }
    const unread = new Set(this.#unread().map(({ jail }) => jail?.id));
    for (const id of this.#scans) {
      if (unread.has(id)) continue;
      this.#scans.delete(id);
      scan(id);
    }
    return hasHanded;
  }

  #hand(user: string, part: Part, { id }: Jail): boolean {
    const { follower, schedule } = this.#options;
    const isAhead = schedule.pending(id) > BACKLOG;
    if (isAhead) release(part, Infinity); // many looks come before theirs
    if (isAhead || follower.waiting(part.pid) > HANDED) return false;
    const lines = this.#queues.take(user);
    const kept = lines.map(({ at, pid, text, address, seen }) => ({ at, pid, text, spooled: { user, address, seen } }));
    follower.follow(kept);
    part.pid = lines.at(-1)?.pid ?? part.pid;
    part.handed += lines.length;
    if (lines.length === 0) this.#end(user, part, id);
    release(part, part.state === 'waiting' ? part.handed : Infinity);
    return true;
  }

  /** The file goes when all of it has been recorded, too. */
  #end(user: string, part: Part, id: string): void {
    const { log, unheard } = this.#options;
    log.info({ username: user, lines: part.handed }, 'what sshd logged while the database was away has been followed');
    part.state = 'handed';
    part.handed = 0;
    // What an earlier process heard of files that are open is not known.
    const isLost = this.#queues.hasLost(user) || this.#repeated.has(user);
    void this.#follow(part, id, isLost);
    if (this.#unread().length > 0) return;
    unheard.adoptAll().catch((error: unknown) => log.warn({ err: error }, 'cannot look at sessions'));
  }

  async #follow(part: Part, id: string, isLost: boolean): Promise<void> {
    const { follower, unheard } = this.#options;
    await follower.followed(id);
    if (part.state === 'handed') part.state = 'followed';
    if (!isLost) return;
    unheard.resume(id);
    this.scan(id);
  }

  /** All of it has been recorded, or its directory has gone. */
  #forget(user: string, part: Part): void {
    release(part, Infinity);
    this.#queues.remove(user);
    this.#parts.delete(user);
    this.#repeated.delete(user);
  }
}

/** Lets those go on who wait for no more than that. */
function release(part: Part, handed: number): void {
  for (const waiter of part.waiters) if (waiter.for <= handed) waiter.resolve();
  part.waiters = part.waiters.filter((waiter) => waiter.for > handed);
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal, ref: false }).catch(() => undefined);
}

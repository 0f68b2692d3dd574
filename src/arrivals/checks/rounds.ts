/**
 * Announces files in check: once their names have settled (`BERTH_SETTLE_SECONDS`), and the checker has passed them. A name of the
 * file or of a folder above it that changes makes it wait again. Directories take turns, with one check of each at a time. An account gets at most
 * half of the places, and the last free place goes only to an account without one, so that a few customers' slow files do
 * not delay the others.
 *
 * Promise: a file that could not be checked is tried again, after growing waits. The rows alone have the state: after a
 * crash the next start continues with the files that are `checking`. A clock that is set makes no name settle early.
 */
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import type { Loop } from '../../foundation/base/background.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import { type Micros, SECOND, stepMeter } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import { BerthError, errorMessage, isUnavailable } from '../../foundation/base/errors.ts';
import { CHECKING } from '../files/file-rows.ts';
import { contentOf } from '../files/content.ts';
import { displayName, pathOf } from '../uploads/file-path.ts';
import type { FileRow } from '../uploads/record/files.ts';
import { STALE_MTIME, TIMER_GRAIN } from '../uploads/record/file-stat.ts';
import type { FilesContext } from '../files/context.ts';
import { type Decisions, type Passed, refusal } from './decisions.ts';
import { type Checker, CheckerAway, CheckFailed } from './exchange.ts';
import { type Quarantine, quarantinedOf, releasedAmong } from './quarantine.ts';

/** How many files are checked at once, of all accounts and of one. */
const AT_ONCE = 8;
const AT_ONCE_OF_ACCOUNT = AT_ONCE / 2;
/** How often directories get turns, and how often all directories with files in check are queued. */
const TICK_MS = 1000;
const SWEEP_MS = 5000;
/** The wait before a file is tried again, doubled each time, and the longest: after the file has changed, and after a failure. */
const CHANGED = { first: 500, longest: 30_000 };
const FAILED = { first: 10_000, longest: 3_600_000 };
/** The wait while there is no checker, doubled each time. */
const AWAY_MS = 1000;
const LONGEST_AWAY_MS = 30_000;
/** Rows of a directory that are read at once. */
const PAGE = 50;
/** Later than every time in a row. */
const ALWAYS: Micros = Number.MAX_SAFE_INTEGER;

const nextDirectory = compiled<{ after: string }>()((db, p) =>
  db
    .selectFrom('files')
    .select('directory_id')
    .where('state', '=', CHECKING)
    .where('directory_id', '>', p('after'))
    .orderBy('directory_id')
    .limit(1),
);

/** Those with the oldest names first. */
const filesAfter = compiled<{ directory: string; at: Micros; id: string; namedBy: Micros; limit: number }>()((db, p) =>
  db
    .selectFrom('files')
    .selectAll()
    .where('state', '=', CHECKING)
    .where('directory_id', '=', p('directory'))
    .where('named_at', '<=', p('namedBy'))
    .where(({ eb, refTuple, tuple }) => eb(refTuple('named_at', 'id'), '>', tuple(p('at'), p('id'))))
    .orderBy('named_at')
    .orderBy('id')
    .limit(p('limit')),
);

/** When the next file got its name that may still change. */
const namedNext = compiled<{ directory: string; namedBy: Micros }>()((db, p) =>
  db
    .selectFrom('files')
    .select('named_at')
    .where('state', '=', CHECKING)
    .where('directory_id', '=', p('directory'))
    .where('named_at', '>', p('namedBy'))
    .orderBy('named_at')
    .limit(1),
);

export type CheckOutcome = 'passed' | 'rejected' | 'failed' | 'unchecked';

export interface RoundsParts {
  readonly decisions: Decisions;
  readonly quarantine: Pick<Quarantine, 'putBack'>;
  /** Undefined when nothing is checked any more: files that wait are announced. */
  readonly checker: Checker | undefined;
  /** Called after each attempt, with how many seconds it took. */
  observe(outcome: CheckOutcome, seconds: number): void;
}

/** A place in the order of a directory's files. */
interface Place {
  readonly at: number;
  readonly id: string;
}

interface Retry {
  tries: number;
  /** In ms, by the monotonic clock. */
  due: number;
}

export class Rounds {
  readonly #context: FilesContext;
  readonly #parts: RoundsParts;
  /** Directories that may have something to check, in turn. */
  readonly #queue = new Set<string>();
  readonly #busy = new Map<string, Promise<void>>();
  /** The account of each queued directory that has had a turn, and how many checks each account has under way. */
  readonly #accountOf = new Map<string, string>();
  readonly #accounts = new Map<string, number>();
  #underWay = 0;
  /** When the next name in each directory has settled, by the monotonic clock in ms. */
  readonly #later = new Map<string, number>();
  readonly #clockStep: () => Micros;
  /** By how much the wall clock was set forward since the times in the rows were moved. */
  #jump: Micros = 0;
  #following: Promise<void> | undefined;
  readonly #retries = new Map<string, Retry>();
  /** Where directories go on until the next sweep: before that are whole pages of files that have failed and are not due. */
  readonly #places = new Map<string, Place>();
  readonly #stop = new AbortController();
  #sweptAt = -Infinity;
  #away = 0;
  #pausedUntil = -Infinity;
  readonly #loop: Loop;

  /** Continues with files that an earlier process left in check. */
  constructor(context: FilesContext, parts: RoundsParts) {
    this.#context = context;
    this.#parts = parts;
    this.#clockStep = stepMeter(context.clock, () => performance.now());
    this.#loop = context.background.start('checks', { every: TICK_MS, atOnce: true }, () => this.#tick());
  }

  /** Files of that directory have been received, or released from the quarantine. */
  received(directoryId: string): void {
    this.#queue.add(directoryId);
    this.#fill();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop.close();
    await Promise.all(this.#busy.values());
  }

  /** @returns when the next name has settled, in ms, or `TICK_MS`. */
  async #tick(): Promise<number> {
    const now = performance.now();
    if (this.#namedBy() < ALWAYS && this.#jump > 0) await this.#followClock();
    if (now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now;
      await this.#sweep();
      for (const [id, { due }] of this.#retries) if (due < now - FAILED.longest) this.#retries.delete(id);
    }
    let next = now + TICK_MS;
    for (const [id, due] of this.#later) {
      if (due > now) next = Math.min(next, due);
      else {
        this.#later.delete(id);
        this.#queue.add(id);
      }
    }
    this.#fill();
    return Math.max(1, next - performance.now());
  }

  /** Until when a file must have got its name for that to have settled. After the clock was set, not before the wait is over. */
  #namedBy(): Micros {
    const { clock, config } = this.#context;
    const { settleSeconds } = config;
    if (settleSeconds === 0) return ALWAYS;
    this.#jump += Math.max(0, this.#clockStep());
    return clock.now() - this.#jump - settleSeconds * SECOND;
  }

  /** Moves the times of names that have not settled with the wall clock. After it was set back, names wait from now on. */
  #followClock(): Promise<void> {
    return (this.#following ??= this.#moveTimes().finally(() => (this.#following = undefined)));
  }

  async #moveTimes(): Promise<void> {
    const { database, clock, config } = this.#context;
    const { db } = database;
    const [jump, now] = [this.#jump, clock.now()];
    await db
      .updateTable('files')
      .set((eb) => ({
        named_at: eb
          .case()
          .when('named_at', '<', now - jump)
          .then(eb('named_at', '+', jump))
          .else(now)
          .end(),
      }))
      .where('state', '=', CHECKING)
      .where('named_at', '>', jump > 0 ? 0 : now)
      .where('directory_id', 'in', db.selectFrom('directories').select('id').where('node', '=', config.node))
      .execute();
    this.#jump -= jump;
  }

  /** Queues every directory that has files in check, by one step in their index for each. */
  async #sweep(): Promise<void> {
    this.#places.clear();
    let after = '';
    while (!this.#stop.signal.aborted) {
      const next = await nextDirectory.first(this.#context.database.reads, { after });
      if (!next) return;
      after = next.directory_id;
      this.#queue.add(after);
    }
  }

  #fill(): void {
    if (performance.now() < this.#pausedUntil) return;
    for (const id of Array.from(this.#queue)) {
      if (this.#busy.size >= AT_ONCE || this.#stop.signal.aborted) return;
      const account = this.#accountOf.get(id);
      if (this.#busy.has(id) || (account !== undefined && !this.#hasPlaceFor(account))) continue;
      this.#queue.delete(id);
      const work = this.#turnOf(id)
        .catch((error: unknown) => this.#troubled(error))
        .finally(() => {
          this.#busy.delete(id);
          this.#fill();
        });
      this.#busy.set(id, work);
    }
  }

  /** Checks one file of a directory. */
  async #turnOf(id: string): Promise<void> {
    const { database, config } = this.#context;
    const directory = await database.reads
      .selectFrom('directories')
      .selectAll()
      .where('id', '=', id)
      .where('node', '=', config.node)
      .where('deleted_at', 'is', null)
      .executeTakeFirst();
    if (!directory) return;
    const { account_id: account } = directory;
    this.#accountOf.set(id, account);
    if (!this.#hasPlaceFor(account)) {
      // berth knows its account now, and skips it until one of that account's places is free.
      this.#queue.add(id);
      return;
    }
    this.#accounts.set(account, (this.#accounts.get(account) ?? 0) + 1);
    this.#underWay += 1;
    try {
      const files = await this.#dueFilesOf(id);
      if (files.length === 0) {
        this.#accountOf.delete(id);
        return await this.#waitForNames(id);
      }
      await this.#decideAll(directory, files);
      this.#queue.add(id);
    } finally {
      this.#underWay -= 1;
      const left = (this.#accounts.get(account) ?? 1) - 1;
      if (left === 0) this.#accounts.delete(account);
      else this.#accounts.set(account, left);
    }
  }

  /** Whether a check of the account may begin. Only its first may take the last place. */
  #hasPlaceFor(account: string): boolean {
    const own = this.#accounts.get(account) ?? 0;
    return own === 0 || (own < AT_ONCE_OF_ACCOUNT && this.#underWay < AT_ONCE - 1);
  }

  /**
   * Files that are due, from the page with the oldest. A file that is recorded but was never found on the disk waits for the look that
   * finds it. The cost of a turn does not grow with the files that have failed: a customer may have very many.
   */
  async #dueFilesOf(directory: string): Promise<FileRow[]> {
    const namedBy = this.#namedBy();
    for (let place = this.#places.get(directory) ?? { at: -1, id: '' }; ;) {
      const rows = await filesAfter.all(this.#context.database.reads, { directory, ...place, namedBy, limit: PAGE });
      const now = performance.now();
      const due = rows.filter((row) => row.mtime !== STALE_MTIME && (this.#retries.get(row.id)?.due ?? 0) <= now);
      const last = rows.at(-1);
      if (due.length > 0 || rows.length < PAGE || !last) return due;
      place = { at: last.named_at, id: last.id };
      this.#places.set(directory, place);
      await setImmediate();
    }
  }

  /** Gives a directory its next turn when the next name in it has settled. */
  async #waitForNames(directory: string): Promise<void> {
    const { database, config } = this.#context;
    const { settleSeconds } = config;
    if (settleSeconds === 0) return;
    const namedBy = this.#namedBy();
    const next = await namedNext.first(database.reads, { directory, namedBy });
    if (!next) return;
    const rest = next.named_at - namedBy;
    const longest = settleSeconds * SECOND + this.#jump;
    // A name from the future: the clock was set back.
    if (rest > longest + SECOND) await this.#followClock();
    this.#later.set(directory, performance.now() + Math.min(rest, longest) / 1000);
  }

  /** Checks the first of these files. Without a checker, announces as many as possible. */
  async #decideAll(directory: DirectoryRow, files: readonly FileRow[]): Promise<void> {
    const { database, through } = this.#context;
    const { checker, decisions, observe } = this.#parts;
    const [first] = files;
    if (!first) return;
    const released = checker ? first : await releasedAmong(database.reads, directory.id, files);
    if (released) return this.#decide(directory, released);
    const ids = files.map(({ id }) => id);
    const passing = { namedBy: this.#namedBy() };
    const refused = (error: unknown): Passed => new Map(ids.map((id) => [id, refusal(error)]));
    const passed = await through(directory.id, () => decisions.passAll(directory, ids, passing)).catch(refused);
    for (const file of files) {
      if (!passed.has(file.id)) continue;
      const error = passed.get(file.id);
      if (error) this.#changedMeanwhile(directory, file, error);
      else {
        this.#retries.delete(file.id);
        observe('unchecked', 0);
      }
    }
  }

  async #decide(directory: DirectoryRow, file: FileRow): Promise<void> {
    const { log, config, through } = this.#context;
    const { observe, decisions } = this.#parts;
    const began = performance.now();
    const done = (outcome: CheckOutcome): void => observe(outcome, (performance.now() - began) / 1000);
    try {
      done(await this.#check(directory, file));
      this.#retries.delete(file.id);
      this.#away = 0;
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      const isFailure = error instanceof CheckFailed || error instanceof CheckerAway;
      if (!isFailure) return this.#changedMeanwhile(directory, file, error);
      done('failed');
      const about = { directory: directory.id, file: displayName(file.path), reason: error.message };
      if (config.check?.whenUnavailable === 'pass') {
        log.warn(about, 'a file could not be checked, and is announced all the same (BERTH_CHECK_UNAVAILABLE=pass)');
        try {
          await through(directory.id, () => decisions.pass(directory, file.id, { namedBy: this.#namedBy() }));
          done('unchecked');
        } catch (other) {
          this.#changedMeanwhile(directory, file, other);
        }
        return;
      }
      if (error instanceof CheckerAway) this.#pause(about);
      else {
        log.warn(about, 'a file could not be checked; it waits and is tried again');
        this.#retryIn(file, FAILED);
      }
      await decisions.failed(directory, file, error.message).catch((other: unknown) => {
        if (!(other instanceof BerthError)) throw other;
      });
    }
  }

  async #check(directory: DirectoryRow, file: FileRow): Promise<CheckOutcome> {
    const { database, config, through } = this.#context;
    const { checker, decisions, quarantine } = this.#parts;
    const released = await quarantinedOf(database.reads, directory.id, file.id);
    if (released || !checker || !config.check) {
      return through(directory.id, async () => {
        if (released) quarantine.putBack(directory, released);
        await decisions.pass(directory, file.id, released ? {} : { namedBy: this.#namedBy() });
        return released ? 'passed' : 'unchecked';
      });
    }
    const { seconds, maxBytes } = config.check;
    if (file.size_bytes > maxBytes) throw new CheckFailed('the file is larger than BERTH_CHECK_MAX_MIB');
    await this.#waitUntilStable(directory, file);
    const { tag, size, read } = await contentOf(this.#context, directory, file);
    const about = { directoryId: directory.id, username: directory.sftp_username, path: file.path, size };
    const verdict = await checker.check({ ...about, content: read(0, size) }, seconds, this.#stop.signal);
    return through(directory.id, async () => {
      if (verdict.isPassed) await decisions.pass(directory, file.id, { tag, namedBy: this.#namedBy() });
      else await decisions.reject(directory, file, tag, verdict.reason);
      return verdict.isPassed ? 'passed' : 'rejected';
    });
  }

  /**
   * Waits until the file's change time is older than the grain of the kernel's clock. Within that, a change after reading the
   * file might leave the change time as it is.
   */
  async #waitUntilStable({ sftp_username }: DirectoryRow, { path }: FileRow): Promise<void> {
    const stats = lstatBeneath(this.#context.filesRoot(sftp_username), path);
    const grain = TIMER_GRAIN / 1000;
    if (stats && Math.abs(Date.now() - stats.ctimeMs) < grain) await wait(grain);
  }

  /** The file was written, renamed or removed, and its row will show that soon. Throws other errors again. */
  #changedMeanwhile(directory: DirectoryRow, file: FileRow, error: unknown): void {
    if (!(error instanceof BerthError)) throw error;
    if (error.code === 'upload_not_found' || error.code === 'file_changed')
      this.#context.missing(directory, pathOf(file.path));
    this.#retryIn(file, CHANGED);
  }

  #retryIn({ id }: FileRow, { first, longest }: typeof CHANGED): void {
    const tries = (this.#retries.get(id)?.tries ?? 0) + 1;
    const due = performance.now() + Math.min(first * 2 ** (tries - 1), longest);
    this.#retries.set(id, { tries, due });
  }

  /** Pauses once for all checks that were under way together. */
  #pause(about: object): void {
    const now = performance.now();
    if (now < this.#pausedUntil) return;
    if (this.#away === 0) this.#context.log.error(about, 'there is no checker: uploads wait and are not announced');
    this.#pausedUntil = now + Math.min(AWAY_MS * 2 ** this.#away, LONGEST_AWAY_MS);
    this.#away += 1;
  }

  #troubled(error: unknown): void {
    this.#pausedUntil = performance.now() + AWAY_MS;
    if (isUnavailable(error) || this.#stop.signal.aborted) return;
    this.#context.log.error({ err: error, reason: errorMessage(error) }, 'files could not be checked; trying again');
  }
}

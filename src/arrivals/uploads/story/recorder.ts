/**
 * Records uploads: reads the stories of all directories in turn, applies their operations, and writes rows, totals,
 * history and webhooks, with several directories in one transaction.
 *
 * Promise: the operations of a directory are applied in order, or, if that is not possible, the directory is compared
 * with the disk. The recorder waits while the database is full or busy. An upload's file is on the disk before its row
 * is written.
 */
import { setTimeout } from 'node:timers/promises';
import type { Micros } from '../../../foundation/base/clock.ts';
import { errorMessage, isUnavailable } from '../../../foundation/base/errors.ts';
import { SLICE_MS } from '../../../foundation/base/event-loop.ts';
import { FairQueue, Turns } from '../../../foundation/base/turns.ts';
import type { FilePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { logHistory, type SessionNote } from '../record/transfer-history.ts';
import { DataLost } from '../disk/file-syncer.ts';
import { Agenda } from './agenda.ts';
import { askAboutOpens } from './doubted-opens.ts';
import type { Outcome } from './outcome.ts';
import type { WorldOfDirectory } from './directory.ts';
import { type Look, REST_MS, type Task } from './jobs.ts';
import type { LookOutcome } from './look.ts';
import { Lost } from './lost.ts';
import type { Ending, Operation, TrackedFile } from './operations.ts';
import type { File, SessionOf } from './sessions.ts';
import { type Line, Story } from './story.ts';
import type { RecorderOptions } from './world.ts';
import { Work } from './work.ts';
import { type Applied, isPassing, separated, type Taken, write } from './write.ts';

/**
 * How many operations and looks of one directory are taken before the next directory's turn, and how many go into one
 * transaction.
 */
const TURN = 16;
const BATCH = 64;

/**
 * How many looks ask the kernel and the disk about their files at a time. Thousands may wait for the same line of the log; together
 * they would hold the event loop for seconds, and a descriptor each.
 */
const EXPLAINING = 16;

/**
 * How long notes wait for another write that they can join, in ms, and how many may wait. A flood loses the notes
 * beyond that.
 */
const NOTES_MS = 1000;
const NOTES = 10_000;

/**
 * How long to wait before a retry when the database is full or busy or the disk fails, in ms, and how many times a task
 * or a look may wait.
 */
const RETRY_MS = 1000;
const MOST_WAITS = 100;

export class Recorder {
  readonly #options: RecorderOptions;
  readonly #works = new Map<string, Work>();
  /** Directories that have work now. */
  readonly #now = new Turns<Work>();
  /** When directories have work again, by the monotonic clock in ms. */
  readonly #later = new Map<Work, number>();
  readonly #lost = new Lost();
  #notes: SessionNote[] = [];
  /** When notes are written even if nothing else is, by the monotonic clock in ms. */
  #notesDue = Infinity;
  /**
   * Events up to this time may be recorded already: the answer to their commit was lost, or an earlier process followed
   * their lines.
   */
  #inDoubtUntil: Micros = -Infinity;
  /** Files about whose doubted handles the kernel is being asked. */
  readonly #asking = new Set<File>();
  readonly #explaining = new FairQueue(EXPLAINING);
  /** How many transactions are running, and tasks and looks are waiting for the log, the disk or the kernel. */
  #underWay = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** The story of a directory, created if there is none. */
  storyOf(jail: Jail): Story {
    return this.#workOf(jail).story;
  }

  /** The story of a directory, if there is one. */
  known(directoryId: string): Story | undefined {
    return this.#works.get(directoryId)?.story;
  }

  /** The live sessions of all directories. */
  sessions(): SessionOf[] {
    return [...this.#works.values()].flatMap(({ jail, story }) =>
      story.sessions().map(({ by, openedAt, born }) => ({ jail, by, openedAt, born })),
    );
  }

  /** Adds a line that sshd logged in a session of the directory. */
  add(jail: Jail, line: Line): void {
    const work = this.#workOf(jail);
    work.story.add(line);
    this.#wake(work);
  }

  /** Notes that events up to `at` may be recorded already. */
  repeated(at: Micros): void {
    this.#inDoubtUntil = Math.max(this.#inDoubtUntil, at);
  }

  /**
   * Whether everything that was followed has been written, except for the state that `kept` returns.
   * @param isUrgent ignores uploads that still wait for their file.
   */
  isDecided(directoryId: string, isUrgent: boolean): boolean {
    return this.isSettled(directoryId) && (isUrgent || this.#lost.isEmpty(directoryId));
  }

  /** Resolves once every line that was added before the call has been interpreted. */
  async read(directoryId: string): Promise<void> {
    const work = this.#works.get(directoryId);
    const isRead = work?.read();
    if (!work || !isRead) return;
    this.#wake(work);
    await isRead;
  }

  /** Something may have happened at a path: plans a comparison with its row, in `inMs` ms. */
  look(jail: Jail, path: FilePath, inMs: number): void {
    const work = this.#workOf(jail);
    work.agenda.look(path, this.#options.world.monotonic() + inMs, work.story.wasSet(path));
    this.#wake(work);
  }

  /** Like `look`, unless an operation of the log compares the path with its row before that. */
  hint(jail: Jail, path: FilePath, inMs: number): void {
    const work = this.#workOf(jail);
    const now = this.#options.world.monotonic();
    work.agenda.look(path, now + inMs, work.story.wasSet(path), now);
    this.#wake(work);
  }

  /** berth itself has removed a file. */
  removed(jail: Jail, path: FilePath, { at, reason }: { readonly at: Micros; readonly reason: string }): void {
    const work = this.#workOf(jail);
    work.agenda.add({ kind: 'remove', path, by: undefined, at, reason });
    this.#wake(work);
  }

  note(note: SessionNote): void {
    if (this.#notes.length >= NOTES) return;
    this.#notes.push(note);
    this.#notesDue = Math.min(this.#notesDue, this.#options.world.monotonic() + NOTES_MS);
    this.#options.wake();
  }

  /** Whether more than that many lines, operations and due looks are pending, in one directory or in all. */
  isBehind(most: number, directoryId?: string): boolean {
    const now = this.#options.world.monotonic();
    const works = directoryId === undefined ? this.#works.values() : [this.#works.get(directoryId)];
    let count = 0;
    for (const work of works) if (count <= most) count += work?.pending(now, most + 1 - count) ?? 0;
    return count > most;
  }

  /** Whether everything the log says about a directory has been applied, except for open handles. */
  isSettled(directoryId: string): boolean {
    return !this.isBehind(0, directoryId);
  }

  /** Whether everything that was logged has been recorded. Work that is planned for later does not count. */
  get isDrained(): boolean {
    return this.#now.size === 0 && this.#underWay === 0 && this.#notes.length === 0;
  }

  /** Makes the next turn write the waiting notes. */
  flushNotes(): void {
    if (this.#notes.length > 0) this.#notesDue = 0;
    this.#options.wake();
  }

  /** When the last transaction that added to the history was committed, by the monotonic clock in ms. */
  wroteAt = Number.NEGATIVE_INFINITY;

  /**
   * Does the work that is due. Returns when more is due, by the monotonic clock in ms, or undefined when nothing is
   * planned.
   */
  async turn(): Promise<number | undefined> {
    const now = this.#options.world.monotonic();
    for (const [work, due] of this.#later) if (due <= now) this.#wake(work);
    const taken: Taken<Work>[] = [];
    const unfinished: Work[] = [];
    // With few directories, each may take more of the batch.
    const turn = Math.max(TURN, Math.floor(BATCH / this.#now.size));
    const until = now + SLICE_MS;
    for (let left = BATCH; left > 0 && this.#options.world.monotonic() < until;) {
      const work = this.#now.take();
      if (!work) break;
      const { next, tasks, looks } = work.take(Math.min(turn, left), now, until);
      // Its lines may have woken it.
      if (this.#now.delete(work) || next <= now) unfinished.push(work);
      else if (next < Infinity) this.#later.set(work, next);
      else if (work.isOver) this.#works.delete(work.jail.id);
      left -= tasks.length + looks.length;
      if (tasks.length + looks.length > 0) taken.push({ work, tasks, looks });
    }
    for (const work of unfinished) this.#now.add(work, work.amount);
    const isWriting = taken.length > 0 || this.#notesDue <= now;
    const notes = isWriting ? this.#notes.splice(0, BATCH) : [];
    if (this.#notes.length === 0) this.#notesDue = Infinity;
    if (isWriting) {
      this.#underWay += 1;
      await this.#record(taken, notes).finally(() => (this.#underWay -= 1));
    }
    if (this.#now.size > 0) return now;
    let next = this.#notesDue;
    for (const due of this.#later.values()) if (due < next) next = due;
    return next === Infinity ? undefined : next;
  }

  #workOf(jail: Jail): Work {
    const known = this.#works.get(jail.id);
    if (known) return known;
    const { world, isTemporary } = this.#options;
    const agenda = new Agenda();
    const story: Story = new Story({
      directoryId: jail.id,
      lstat: (path) => world.lstat(jail, path),
      heldBy: (pid) => world.heldBy(jail, pid),
      isHeldBy: (pid, inode) => world.isHeldBy(pid, inode),
      isGone: (pid) => world.isGone(pid),
      timesHeldBy: (pid, inode, since) => world.timesHeldBy(pid, inode, since),
      isTemporary,
      monotonic: () => world.monotonic(),
      happened: (operation) => this.#happened(work, operation),
      homeless: (end) => {
        this.#lost.addEnding(jail.id, end);
        this.#options.compare(jail.id);
      },
      doubted: (file) => void this.#askAboutOpens(work, file),
      cutOff: (start, end, session) => this.#lost.addEnding(jail.id, end, { start, session }),
      look: (path, inMs) => this.look(jail, path, inMs),
      moved: (from, to) => agenda.moved(from, to),
      compare: () => this.#options.compare(jail.id),
      note: (note) => this.note(note),
      provenFrom: this.#options.provenFrom ?? -Infinity,
    });
    const work: Work = new Work({ jail, story, agenda, monotonic: () => world.monotonic() });
    this.#works.set(jail.id, work);
    return work;
  }

  /**
   * Adds an operation. The file of a complete upload is synced at once: without that, applying the upload would only request
   * the sync.
   */
  #happened(work: Work, operation: Operation): void {
    const task = work.agenda.add(operation);
    if (operation.kind === 'move') this.#lost.moved(work.jail.id, operation.from, operation.to);
    this.#wake(work);
    const { isTemporary } = this.#options;
    if (operation.kind === 'put') {
      const { file, end } = operation;
      if (end.isComplete && file.path !== undefined && !file.hasOpenWriters) this.#syncPut(work, task, file.path, end);
    } else if (operation.kind === 'move' && isTemporary(operation.from) && !isTemporary(operation.to)) {
      this.#sync(work, task, operation.to);
    }
  }

  async #record(taken: readonly Taken<Work>[], notes: readonly SessionNote[]): Promise<void> {
    const { log, compare } = this.#options;
    try {
      const applied = await this.#write(taken, notes);
      for (const each of applied) this.#conclude(each);
      // Directories that were left out go before those that had their turn.
      for (const { work, isLeftOut } of applied)
        if (!isLeftOut && this.#now.delete(work)) this.#now.add(work, work.amount);
    } catch (error) {
      if (isPassing(error)) {
        log.error({ err: errorMessage(error) }, 'cannot record uploads, trying again');
        this.repeated(this.#options.clock.now());
        this.#notes.unshift(...notes);
        if (notes.length > 0) this.#notesDue = 0;
        await this.#rest();
        for (const { work, tasks, looks } of taken) {
          for (const each of [...tasks, ...looks]) each.become('ready');
          this.#wake(work);
        }
      } else if (notes.length > 0) {
        // The notes may be the cause. Drop them rather than hold up uploads.
        log.error({ err: error, notes: notes.length }, 'cannot write history');
        await this.#record(taken, []);
      } else {
        const single = taken.length === 1 && taken[0] ? taken[0] : undefined;
        if (single && single.tasks.length + single.looks.length === 1) {
          log.error({ err: error, directory: single.work.jail.id }, 'cannot record a change, comparing with the disk');
          this.#giveUp(single);
          compare(single.work.jail.id);
        } else for (const each of separated(taken)) await this.#record([each], []);
      }
    }
  }

  async #write(taken: readonly Taken<Work>[], notes: readonly SessionNote[]): Promise<readonly Applied<Work>[]> {
    const { transact, clock, log, recorded, world, node } = this.#options;
    const now = clock.now();
    const began = world.monotonic();
    const { applied, history } = await transact((tx) =>
      write(tx, taken, notes, {
        node,
        repeating: { inDoubtUntil: this.#inDoubtUntil },
        monotonic: () => world.monotonic(),
        worldOf: (work) => this.#worldOf(work, now),
        requestsOf: ({ jail, story, agenda }) => ({
          look: (path, inMs) => this.look(jail, path, inMs),
          compared: (path) => agenda.compared(path, began),
          compare: () => this.#options.compare(jail.id),
          committed: (action) => action(),
          waits: (pid, path) => {
            if (!story.leavesTemporary(pid)) this.look(jail, path, 0);
          },
        }),
        found: (directoryId, { endings, rows }) => {
          for (const end of endings) this.#lost.removeEnding(directoryId, end);
          for (const row of rows) this.#lost.removeRow(row);
        },
      }),
    );
    if (history.length > 0) this.wroteAt = world.monotonic();
    logHistory(log, history);
    recorded(history);
    return applied;
  }

  #worldOf({ jail, story, agenda }: Work, now: Micros): WorldOfDirectory {
    const { world, isTemporary, isChecked = false, settles = false, isUnannounced, doubts } = this.#options;
    return {
      lstat: (path) => world.lstat(jail, path),
      isDiskThere: () => world.isDiskThere(),
      isTemporary,
      isChecked,
      settles,
      isUnannounced,
      trackedAt: (path) => story.fileAt(path),
      mayWrite: (path, inode) => story.mayWrite(path, inode),
      isEndPending: (stat) => agenda.isEndPending(stat),
      wasSet: (path) => story.wasSet(path),
      pids: () => story.pids(),
      lost: this.#lost,
      isDoubted: (found) => doubts.has(jail.id, found, now),
      now,
      ms: world.monotonic(),
    };
  }

  /** Acts on the outcomes of a transaction that has been committed. */
  #conclude({ work, tasks, looks, outcomes, lookOutcomes, afterwards }: Applied<Work>): void {
    tasks.forEach((task, index) => this.#concludeTask(work, task, outcomes[index] ?? 'hold'));
    looks.forEach((look, index) => this.#concludeLook(work, look, lookOutcomes[index] ?? 'settled'));
    for (const next of afterwards) next();
    this.#wake(work);
  }

  #concludeTask(work: Work, task: Task, outcome: Outcome | 'hold'): void {
    const { agenda, story, jail } = work;
    if (outcome === 'hold') task.become('ready');
    else if (outcome === 'done') {
      agenda.done(task);
      if (task.operation.kind === 'put') story.applied(task.operation);
    } else if ('again' in outcome) {
      task.after = outcome.again;
      task.become('ready');
    } else if (task.waits > MOST_WAITS) {
      this.#giveUp({ work, tasks: [task], looks: [] });
      this.#options.compare(jail.id);
    } else if (outcome.wait === 'sync') this.#sync(work, task, outcome.path);
    else if (outcome.wait === 'refusal') this.#askAboutRefusal(work, task);
    else {
      this.#prepare(work, task, async () => {
        await this.#interpreted(jail);
        task.seen = outcome.seen ?? null;
      });
    }
  }

  #concludeLook(work: Work, look: Look, outcome: LookOutcome): void {
    const { agenda, jail, story } = work;
    const now = this.#options.world.monotonic();
    if (outcome === 'settled' || look.waits > MOST_WAITS) {
      agenda.settled(look, now);
      story.lookedAt(look.path);
    } else if ('again' in outcome) {
      look.due = now + outcome.again;
      look.become('ready');
    } else if (outcome.wait === 'sync') this.#sync(work, look, look.path);
    else {
      this.#prepare(work, look, async () => {
        if (!(await this.#interpreted(jail))) look.due = this.#options.world.monotonic() + REST_MS;
        else await this.#explaining.add(jail.id, () => this.#explain(work, look));
      });
    }
  }

  /** Asks the kernel whether a session holds the file that a look has found. */
  async #explain({ jail, story }: Work, look: Look): Promise<void> {
    const { world } = this.#options;
    const { found } = look;
    const inode = found?.stat?.inode;
    const isHeld =
      inode !== undefined && ((await world.isHeldByAny(story.pids(), inode)) || story.mayHold(look.path, inode));
    if (found) look.found = { ...found, isUnexplained: !isHeld };
    if (isHeld) {
      look.due = world.monotonic() + REST_MS;
      story.shown(look.path, inode);
    } else if (inode !== undefined) {
      // It will be recorded, so it has to be on the disk by then.
      look.synced = (await world.sync(jail, look.path)) ?? null;
    }
  }

  /**
   * Resolves with true once every line that sshd logged about the directory before the call has been interpreted, and
   * with false when that takes too long.
   */
  async #interpreted(jail: Jail): Promise<boolean> {
    const isWhole = await this.#options.world.journalled(jail);
    await this.read(jail.id);
    return isWhole;
  }

  /**
   * Syncs an uploaded file. If it was not empty at its open, also waits for the log: only then does the size show how much
   * was appended.
   */
  #syncPut(work: Work, task: Task, path: FilePath, { bytes }: Ending): void {
    this.#prepare(work, task, async () => {
      task.synced = (await this.#options.world.sync(work.jail, path)) ?? null;
      if (bytes !== undefined) return;
      const { synced } = task;
      await this.#interpreted(work.jail);
      task.seen = synced;
    });
  }

  /** Asks the kernel whether the file of a put has more handles, before its end or since: opens that were most likely refused. */
  #askAboutRefusal(work: Work, task: Task): void {
    const { operation: put } = task;
    if (put.kind !== 'put') return;
    const { file } = put;
    this.#prepare(work, task, async () => {
      task.hasAsked = true;
      if (!put.isDoubted()) return this.#ask(work, file, false, () => file.isDoubted);
      await this.#ask(work, file, true, () => put.isDoubted());
      if (!put.isDoubted()) return;
      work.story.believe(put);
      work.agenda.done(task);
    });
  }

  /** Asks the kernel whether opens of a file were refused, before the session goes on with it. A put asks again. */
  async #askAboutOpens(work: Work, file: File): Promise<void> {
    if (this.#asking.has(file)) return;
    this.#asking.add(file);
    this.#underWay += 1;
    await this.#ask(work, file, false, () => file.isDoubted).catch((error: unknown) => {
      this.#options.log.error({ err: error, directory: work.jail.id }, 'cannot ask whether a file was opened');
    });
    this.#underWay -= 1;
    this.#asking.delete(file);
  }

  #ask({ jail, story }: Work, file: TrackedFile, isLast: boolean, isDoubted: () => boolean): Promise<void> {
    const wait = (ms: number): Promise<unknown> => this.#options.world.wait(ms);
    return askAboutOpens({ story, file, isLast, isDoubted, wait, interpreted: () => this.#interpreted(jail) });
  }

  #sync(work: Work, each: Task | Look, path: FilePath): void {
    this.#prepare(work, each, async () => {
      each.synced = (await this.#options.world.sync(work.jail, path)) ?? null;
    });
  }

  /** Runs what a task or a look waits for. After a failure, waits before the task or look is tried again. */
  #prepare(work: Work, each: Task | Look, how: () => Promise<void>): void {
    each.become('waiting');
    this.#underWay += 1;
    const attempt = async (): Promise<void> => {
      try {
        await how();
      } catch (error) {
        if (error instanceof DataLost) each.isLost = true;
        if (!isUnavailable(error))
          this.#options.log.error({ err: error, directory: work.jail.id }, 'cannot look at a file, trying again');
        await this.#rest();
      }
      this.#underWay -= 1;
      if (each.state !== 'over') each.become('ready');
      this.#wake(work);
    };
    void attempt();
  }

  #giveUp({ work, tasks, looks }: Taken<Work>): void {
    for (const task of tasks) {
      work.agenda.done(task);
      if (task.operation.kind === 'put') work.story.applied(task.operation);
    }
    for (const look of looks) work.agenda.settled(look, 0);
    this.#wake(work);
  }

  #rest(): Promise<unknown> {
    return setTimeout(RETRY_MS, undefined, { ref: false });
  }

  #wake(work: Work): void {
    this.#later.delete(work);
    if (this.#works.get(work.jail.id) === undefined) this.#works.set(work.jail.id, work);
    this.#now.add(work, work.amount);
    this.#options.wake();
  }
}

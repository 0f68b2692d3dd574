/** One story: sessions on a model's disk, a reader that lags, and the real recorder on a real database. */
import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../src/foundation/db/open.ts';
import type { Transfer } from '../../src/rules/history/transfers.ts';
import type { UncleanBoot } from '../../src/foundation/base/boot.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { type FilePath, pathOf, temporaryNames } from '../../src/arrivals/uploads/file-path.ts';
import type { Jail } from '../../src/arrivals/uploads/jails.ts';
import type { LineRecord } from '../../src/arrivals/uploads/log/journal-record.ts';
import { alikeIn, heldLike, observationOf, pathsToLookAt } from '../../src/arrivals/uploads/log/line-owners.ts';
import { readEvent } from '../../src/arrivals/uploads/log/log-line.ts';
import { Doubts } from '../../src/arrivals/uploads/record/doubts.ts';
import { fileStat, isUnchanged } from '../../src/arrivals/uploads/record/file-stat.ts';
import { lineOf } from '../../src/arrivals/uploads/story/log-consumer.ts';
import { Recorder } from '../../src/arrivals/uploads/story/recorder.ts';
import type { KeptSession } from '../../src/arrivals/uploads/story/sessions.ts';
import type { World } from '../../src/arrivals/uploads/story/world.ts';
import { WaitingFiles } from '../../src/arrivals/uploads/waiting-files.ts';
import { announcedWrongly, fromDisplayed } from './announced.ts';
import { Api, type ApiStep } from './api.ts';
import { type Inode, ModelDisk } from './disk.ts';
import { Hands, type HandStep } from './hands.ts';
import { isAwayWithin, type LifeEnd } from './life-end.ts';
import { distinctSizes, type Random } from './random.ts';
import { ModelSession } from './session.ts';
import type { Step } from './steps.ts';
import { ModelTime } from './time.ts';
import { asLogged, Truth } from './truth.ts';

/** 2026, in µs. */
const BEGINNING = 1_790_000_000_000_000;
/** Longer than anything may take to be settled, in µs. */
const SETTLING = 40_000_000;
/** How soon a consumer removes an upload, in µs. */
const CONSUMED_WITHIN = 5000;
/** How often a client tries again while sshd is not there, in µs. */
const AFTER_BOOT = 100_000;
/** How long a sync may take, in ms. */
const SLOWEST_SYNC = 300;
/** How many of ten changes the watcher sees. */
const SEEN_OF_TEN = 1;

export interface Story {
  readonly sessions: readonly {
    readonly begins: number;
    readonly steps: readonly Step[];
    readonly end: 'quit' | 'cut' | 'killed';
  }[];
  /** How late the log may be read at most, in µs. */
  readonly lag: number;
  /** What sessions share: folders with names of their own in them, or names. Of nothing the log's order is that of what happened. */
  readonly shared: 'nothing' | 'folders' | 'names';
  readonly ends: readonly LifeEnd[];
  /** What an administrator does without SFTP. */
  readonly byHand: readonly HandStep[];
  /** What the API does. */
  readonly byApi: readonly ApiStep[];
  /** A consumer removes most uploads within 5 ms of their webhook. */
  readonly isConsumed: boolean;
}

interface LogLine {
  readonly pid: number;
  readonly text: string;
  /** When it can be read at the earliest. */
  readonly due: number;
}

const isTemporary = temporaryNames(['*.part']);

export async function playStory(story: Story, database: Database, jail: Jail, random: Random): Promise<string[]> {
  const time = new ModelTime(BEGINNING);
  const disk = new ModelDisk();
  const truth = new Truth();
  const traced: string[] = [];
  const trace = (text: string): void => void traced.push(`${((time.now - BEGINNING) / 1000).toFixed(2)} ${text}`);
  const nextSize = distinctSizes();
  let isWoken = false;

  // The log: what sshd has written, how much of it has been read, and the journal, which begins with what a compaction has left.
  const written: LogLine[] = [];
  let read = 0;
  let journal: LineRecord[] = [];
  let base: readonly KeptSession[] = [];
  const owners = new Map<number, { lastPaths: readonly FilePath[] | undefined }>();
  let awaiting: { readonly upTo: number; readonly resolve: () => void }[] = [];
  let lastDue = 0;
  let lastAt = 0;

  // `serve`: a new process after each kill, which gets nothing from the previous one.
  let life = 0;
  let isAway = false;
  /** The power has gone, and `serve` has not been started since. */
  let isDark = false;
  let boot: UncleanBoot | undefined;
  const announced = new Map<number, number>();
  const faults: string[] = [];
  const jobs = new Set<Promise<void>>();
  const inDatabase = (job: Promise<void>): void => void jobs.add(job.finally(() => jobs.delete(job)));

  const sessions = new Map<number, ModelSession>();
  const holds = (pid: number, ino: number): boolean =>
    sessions
      .get(pid)
      ?.writing()
      .some(({ inode }) => inode.ino === ino) ?? false;
  const world: World = {
    lstat: (_jail, path) => disk.lstat(path),
    isHeldBy: (pid, ino) => !sessions.has(pid) || holds(pid, ino),
    isGone: (pid) => !sessions.has(pid),
    heldBy: (_jail, pid) =>
      sessions
        .get(pid)
        ?.writing()
        .map(({ inode }) => disk.linkTo(inode)),
    timesHeldBy: (pid, ino) => (sessions.get(pid)?.writing() ?? []).filter(({ inode }) => inode.ino === ino).length,
    isHeldByAny: async (pids, inode) => pids.some((pid) => holds(pid, inode)),
    async sync(_jail, path) {
      const found = disk.lstat(path);
      // What is written meanwhile is not synced.
      disk.sync(path);
      if (random(2) === 0) await world.wait(random(SLOWEST_SYNC));
      return found?.isFile() ? fileStat(found) : undefined;
    },
    journalled: () =>
      new Promise((resolve) => {
        if (read >= written.length) resolve(true);
        else awaiting.push({ upTo: written.length, resolve: () => resolve(true) });
      }),
    isDiskThere: () => true,
    monotonic: () => time.now / 1000,
    wait: (ms) => new Promise<void>((resolve) => time.in(ms * 1000, resolve)),
  };
  /** No line was read later than that. */
  const now = (): number => Math.max(time.now, lastAt);
  let recorder = begin();
  let comparing: Promise<void> | undefined;

  function begin(): Recorder {
    life += 1;
    const own = life;
    let isComparing = false;
    return new Recorder({
      world,
      clock: { now },
      log: createLog('silent'),
      node: '',
      isTemporary,
      transact: (work) => database.db.transaction().execute(async (tx) => (await work(tx)).value),
      recorded: (rows) => rows.forEach(({ row }) => recorded(row)),
      provenFrom: boot?.at,
      doubts: new Doubts({ journal: { at: -Infinity }, boot }),
      compare() {
        if (isComparing) return;
        isComparing = true;
        time.in(1_000_000, () => {
          isComparing = false;
          if (own === life) comparing = compare();
        });
      },
      wake: () => void (isWoken = true),
    });
  }

  function recorded({ event, path, bytes }: Transfer): void {
    trace(`  = ${event} ${path ?? ''} ${bytes ?? ''}`);
    if (event !== 'uploaded' || typeof path !== 'string') return;
    if (story.isConsumed && random(4) > 0)
      time.in(random(CONSUMED_WITHIN), () => api.do({ kind: 'deleteLater', at: 0, path: fromDisplayed(path) }));
    announced.set(bytes ?? 0, (announced.get(bytes ?? 0) ?? 0) + 1);
    if (bytes === 0) return;
    const inode = disk.at(fromDisplayed(path));
    if (inode === undefined || inode.size !== bytes || inode.writers > 0 || disk.hasAnother(inode.size)) return;
    if (inode.isZeros) faults.push(`${path} ${bytes} was announced, and its data is lost`);
    else if (!disk.isSynced(inode)) faults.push(`${path} ${bytes} was announced before it was synced`);
  }

  /**
   * While `serve` is away, a copy may get the number of a file that a session has cut off meanwhile. Before the first start after a
   * power cut it is like what the cut has left.
   */
  function mayBePartial({ isReused }: Inode): boolean {
    return isAway && (isReused || isDark);
  }

  /** `serve` is killed: its memory is gone, and nobody reads the log. */
  function kill(): void {
    trace('serve is killed');
    life += 1;
    isAway = true;
    awaiting = [];
    // What was looked up for a look is not used any more.
    isWoken = false;
    due = undefined;
  }

  /** The power goes: the sessions with it, what was not synced, and the last moments of the journal. */
  function cutPower(): void {
    kill();
    trace('the power goes');
    for (const session of sessions.values()) session.die();
    live -= sessions.size;
    sessions.clear();
    disk.cutPower(random);
    truth.powerCut(announced);
    const syncedAt = time.now - random(1_000_000);
    const isKept = random(2) === 0;
    journal = journal.filter(({ at }) => isKept || at <= syncedAt);
    if (!isKept) for (const [, inode] of disk.files()) truth.unlogged(inode, syncedAt);
    written.length = read;
    isDark = true;
  }

  /** Follows what an earlier process has left, then what waits. */
  function start(): void {
    trace('serve is started');
    // As berth notes the boot: when it is started, before sshd is.
    if (isDark) boot = { at: time.now, uptime: -Infinity };
    isDark = false;
    recorder = begin();
    isAway = false;
    if (base.length > 0) recorder.storyOf(jail).restore(base);
    for (const line of journal) {
      recorder.repeated(line.at);
      follow(line, true);
    }
    deliver();
    const own = life;
    const known = recorder.known(jail.id);
    const checks = (known?.sessions() ?? []).map((session) => {
      const { pid } = session.by;
      const held = world.heldBy(jail, pid);
      const compared = held && known?.compareHandles(pid, held);
      return () => {
        if (!compared && known?.isLive(session)) known.end(pid, now(), 'killed');
        compared?.(world.heldBy(jail, pid) ?? [], now());
      };
    });
    const checkSessions = async (): Promise<void> => {
      await world.journalled(jail);
      await recorder.read(jail.id);
      if (own !== life) return;
      for (const complete of checks) complete();
      isWoken = true;
    };
    void checkSessions();
    time.in(500_000, () => {
      if (own === life) comparing = compare();
    });
  }

  /** When all is decided, the journal begins with the sessions that are live. */
  function compact(): void {
    if (isAway || journal.length === 0 || !recorder.isDecided(jail.id, false)) return;
    base = JSON.parse(JSON.stringify(recorder.known(jail.id)?.kept() ?? [])) as readonly KeptSession[];
    journal = [];
  }

  async function compare(): Promise<void> {
    const rows = await database.db.selectFrom('files').selectAll().where('directory_id', '=', jail.id).execute();
    const paths = new Map(rows.map((row) => [pathOf(row.path), row]));
    for (const [path] of disk.files()) {
      const found = disk.lstat(path);
      const row = paths.get(path);
      paths.delete(path);
      if (found && (!row || !isUnchanged(row, fileStat(found)))) recorder.look(jail, path, 0);
    }
    for (const path of paths.keys()) recorder.look(jail, path, 0);
  }

  disk.changed = (path) => {
    if (!isAway && random(10) < SEEN_OF_TEN) recorder.hint(jail, path, 2000);
  };

  function deliver(): void {
    if (isAway) return;
    for (let line = written[read]; line && line.due <= time.now; line = written[read]) {
      read += 1;
      trace(`  < ${line.pid} ${line.text}`);
      const { pid, text } = line;
      lastAt = Math.max(lastAt + 1, time.now);
      const event = readEvent(text);
      const owner = owners.get(pid) ?? { lastPaths: [] };
      owners.set(pid, owner);
      const paths = pathsToLookAt(event, owner);
      if (paths) {
        const seen = paths.map((path) => observationOf(disk.lstat(path)));
        const isUnclear = event.kind === 'unclear';
        const alike = isUnclear ? alikeIn(event, (_folder, isLike) => disk.alike(isLike)) : undefined;
        const held = isUnclear ? heldLike(event, () => world.heldBy(jail, pid)) : undefined;
        const address = event.kind === 'session-opened' ? event.address : '';
        const record = { pid, event, at: lastAt, address, seen: paths.length === 0 ? undefined : seen, held, alike };
        journal.push(record);
        follow(record);
      }
      for (const waiter of awaiting.splice(0)) {
        if (waiter.upTo <= read) waiter.resolve();
        else awaiting.push(waiter);
      }
    }
  }

  function follow(record: LineRecord, isRepeated = false): void {
    const { pid, event, at, address } = record;
    if (event.kind === 'session-opened')
      recorder.storyOf(jail).begin({ by: { pid, address }, openedAt: at, born: undefined }, at);
    else recorder.add(jail, lineOf(record, time.now, isRepeated));
  }

  function log(pid: number, text: string): void {
    trace(`${pid} ${text}`);
    // The listener notes the time when it takes the line from the socket.
    const late = random(4) === 0 ? random(story.lag + 1) : random(300);
    lastDue = Math.max(lastDue, time.now + late);
    written.push({ pid, text, due: lastDue });
    time.in(lastDue - time.now, deliver);
  }

  const hands = new Hands({ disk, time, truth, trace, nextSize, mayBePartial });
  for (const step of story.byHand) time.in(step.at, () => hands.do(step));
  const api = new Api({
    disk,
    time,
    random,
    truth,
    trace,
    database,
    jail,
    nextSize,
    look: (path) => !isAway && recorder.look(jail, path, 0),
    isAway: () => isAway,
    isHeld: (ino) => [...sessions.keys()].some((pid) => holds(pid, ino)),
    hasSessions: () => sessions.size > 0,
    fault: (text) => void faults.push(text),
    inDatabase,
  });
  for (const step of story.byApi) time.in(step.at, () => api.do(step));
  for (const { at, away, what } of story.ends) {
    time.in(at, () => {
      if (isAway) return;
      if (what === 'power') cutPower();
      else kill();
      time.in(away, start);
    });
  }
  // A round finds changes without a hint.
  const rounds = [...story.byHand, ...story.byApi].map(({ at }) => at);
  if (rounds.length > 0) {
    time.in(Math.max(...rounds) + 4_000_000, () => {
      if (!isAway) comparing = compare();
    });
  }
  const waiting = new WaitingFiles({
    reads: database.reads,
    node: '',
    livePids: () => recorder.known(jail.id)?.pids() ?? [],
    isRestoring: () => false,
    abandoned: ({ id }, path) => id === jail.id && recorder.look(jail, path, 0),
  });
  const sweep = (): void => {
    if (!isAway) inDatabase(waiting.sweep());
  };
  if (story.ends.length > 0) for (let at = 6_000_000; at < 20_000_000; at += 3_000_000) time.in(at, sweep);
  for (let at = 500_000; at < 6_000_000; at += 500_000) time.in(at, compact);

  let live = story.sessions.length;
  story.sessions.forEach(({ begins, steps, end }, index) => {
    const pid = index + 1;
    const session = new ModelSession({
      pid,
      disk,
      time,
      truth,
      isTemporary,
      between: (from, to) => from + random(to - from),
      nextSize,
      log: (text) => log(pid, asLogged(text)),
      isReadLate: () => isAwayWithin(story.ends, time.now - BEGINNING, story.lag),
      trace,
      ended(noticed) {
        sessions.delete(pid);
        live -= 1;
        if (!noticed) return;
        time.in(5_000_000, () => {
          noticed();
          if (!isAway) void recorder.read(jail.id).then(() => recorder.known(jail.id)?.end(pid, now(), 'killed'));
        });
      },
    });
    // After a power cut sshd starts only when berth has noted the boot.
    const play = (): void => {
      if (isDark) return time.in(AFTER_BOOT, play);
      sessions.set(pid, session);
      session.play(steps, end);
    };
    time.in(begins, play);
  });

  let due: number | undefined;
  let until = Infinity;
  let turns = 0;
  for (;;) {
    if (live === 0 && until === Infinity) until = time.now + SETTLING;
    const next = Math.min(time.next ?? Infinity, due ?? Infinity, isWoken ? time.now + 300 : Infinity);
    if (next === Infinity || next > until) break;
    time.advance(next);
    if (isWoken || (due !== undefined && due <= time.now)) {
      isWoken = false;
      turns += 1;
      const nextMs = isAway ? undefined : await recorder.turn();
      due = nextMs === undefined ? undefined : Math.max(nextMs * 1000, time.now + 300);
    }
    await setImmediate();
    await comparing;
    await Promise.all(jobs);
    if (turns > 20_000) return ['it never ends', ...traced];
  }
  const found = await check();
  return found.length === 0 ? [] : [...found, ...traced];

  /** A moment in the story. An upload is not older than the end that completed it. */
  function isInStory(at: number): boolean {
    return at >= BEGINNING && at <= time.now;
  }

  async function check(): Promise<string[]> {
    const rows = await database.db.selectFrom('files').selectAll().where('directory_id', '=', jail.id).execute();
    const byPath = new Map(rows.map((row) => [pathOf(row.path), row]));
    for (const [path, inode] of disk.files()) {
      const row = byPath.get(path);
      byPath.delete(path);
      if (!row) {
        // A file that was never closed with anything in it.
        faults.push(`no row for ${path} ${inode.size}`);
      } else if (row.inode !== inode.ino || row.size_bytes !== inode.size || row.mtime !== inode.mtime) {
        const stat = `${inode.ino} ${inode.size} ${inode.mtime}`;
        faults.push(`the row of ${path} is ${row.inode} ${row.size_bytes} ${row.mtime} ${row.state}, on disk ${stat}`);
      } else if (row.state === 'waiting') faults.push(`${path} still waits`);
      else if (story.shared !== 'names' && truth.isCutOff(inode) && row.state !== 'partial')
        faults.push(`${path} ${inode.size} is ${row.state}, though it was cut off`);
      if (row && !isInStory(row.uploaded_at)) faults.push(`${path} is dated ${row.uploaded_at}`);
    }
    const history = await database.db
      .selectFrom('transfers')
      .select(['event', 'path', 'bytes', 'at', 'began_at'])
      .where('directory_id', '=', jail.id)
      .execute();
    const inHistory = new Set(history.map(({ event, bytes, at }) => `${event} ${bytes} ${at}`));
    for (const { path, state, size_bytes, uploaded_at } of rows) {
      const isAnnounced = inHistory.has(`uploaded ${size_bytes} ${uploaded_at}`);
      if (story.shared !== 'names' && state === 'uploaded' && !isAnnounced)
        faults.push(`${pathOf(path)} ${size_bytes} ${uploaded_at} is not in the history`);
    }
    for (const { event, path, bytes, at, began_at } of history) {
      const about = `${event} ${path ?? ''} ${bytes ?? ''}`;
      const isAfterItsBeginning = began_at === null || (isInStory(began_at) && began_at <= at + 1000);
      if (!isInStory(at) || !isAfterItsBeginning) faults.push(`${about} is dated ${at} and began at ${began_at}`);
      const isPromised = event === 'uploaded' && truth.promised.has(bytes ?? 0) && !truth.earlier.get(bytes ?? 0);
      const closed = isPromised && story.shared !== 'names' ? truth.since.get(bytes ?? 0) : undefined;
      // A request is done shortly after it is logged.
      if (closed !== undefined && at < closed - 1000) faults.push(`${about} is dated ${closed - at} µs before its end`);
    }
    for (const path of byPath.keys()) faults.push(`a row without a file: ${path}`);
    if (story.shared !== 'names') faults.push(...(await announcedWrongly({ database, jail, truth, isTemporary })));
    const { storage_bytes: storage } = await database.db
      .selectFrom('directories')
      .select('storage_bytes')
      .where('id', '=', jail.id)
      .executeTakeFirstOrThrow();
    const sum = disk.files().reduce((total, [, inode]) => total + inode.size, 0);
    if (faults.length === 0 && storage !== sum) faults.push(`storage_bytes is ${storage}, the disk has ${sum}`);
    return faults;
  }
}

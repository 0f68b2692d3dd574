/** One story: sessions on a model's disk, a reader that lags, and the real recorder on a real database. */
import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../src/db/open.ts';
import { createLog } from '../../src/log.ts';
import { pathOf, temporaryNames } from '../../src/uploads/file-path.ts';
import type { Jail } from '../../src/uploads/jails.ts';
import { fileStat, isSame } from '../../src/uploads/record/file-stat.ts';
import { Recorder } from '../../src/uploads/story/recorder.ts';
import type { World } from '../../src/uploads/story/world.ts';
import { ModelDisk } from './disk.ts';
import type { Random } from './random.ts';
import { ModelSession, type Step } from './session.ts';
import { ModelTime } from './time.ts';
import { Truth } from './truth.ts';

/** 2026, in µs. */
const BEGINNING = 1_790_000_000_000_000;
/** Longer than anything may take to be settled, in µs. */
const SETTLING = 40_000_000;
/** Of ten changes, so many are seen by the watcher. */
const SEEN_OF_TEN = 1;

export interface Story {
  readonly sessions: readonly {
    readonly begins: number;
    readonly steps: readonly Step[];
    readonly end: 'quit' | 'cut' | 'killed';
  }[];
  /** How late the log may be read at most, in µs. */
  readonly lag: number;
  /** Sessions do not meet: each has names of its own, so that the order of the log is that of what happened. */
  readonly isOrderly: boolean;
}

interface LogLine {
  readonly pid: number;
  readonly text: string;
  readonly at: number;
}

const isTemporary = temporaryNames(['*.part']);

export async function playStory(story: Story, database: Database, jail: Jail, random: Random): Promise<string[]> {
  const time = new ModelTime(BEGINNING);
  const disk = new ModelDisk();
  const truth = new Truth();
  const seen: string[] = [];
  const trace = (text: string): void => void seen.push(`${((time.now - BEGINNING) / 1000).toFixed(2)} ${text}`);
  let size = 0;
  let isWoken = false;

  // The log: what was written, and how much of it has been read.
  const written: LogLine[] = [];
  let read = 0;
  const heard: { readonly upTo: number; readonly resolve: () => void }[] = [];
  let lastRead = 0;

  const sessions = new Map<number, ModelSession>();
  const holds = (pid: number, ino: number): boolean =>
    sessions
      .get(pid)
      ?.writing()
      .some(({ inode }) => inode.ino === ino) ?? false;
  const world: World = {
    lstat: (_jail, path) => disk.lstat(path),
    isHeldBy: (pid, ino) => !sessions.has(pid) || holds(pid, ino),
    isHeldByAny: async (pids, inode) => pids.some((pid) => holds(pid, inode)),
    async sync(_jail, path) {
      const found = disk.lstat(path);
      return found?.isFile() ? fileStat(found) : undefined;
    },
    heard: () =>
      new Promise((resolve) => {
        if (read >= written.length) resolve();
        else heard.push({ upTo: written.length, resolve });
      }),
    isDiskThere: () => true,
    monotonic: () => time.now / 1000,
  };
  let isComparing = false;
  const recorder = new Recorder({
    world,
    clock: { now: () => time.now },
    log: createLog('silent'),
    node: '',
    isTemporary,
    transact: (work) => database.db.transaction().execute(async (tx) => (await work(tx)).value),
    recorded: (rows) => rows.forEach(({ row }) => trace(`  = ${row.event} ${row.path ?? ''} ${row.bytes ?? ''}`)),
    doubts: { has: () => false },
    compare() {
      if (isComparing) return;
      isComparing = true;
      time.in(1_000_000, () => {
        isComparing = false;
        comparing = compare();
      });
    },
    wake: () => void (isWoken = true),
  });
  let comparing: Promise<void> | undefined;

  async function compare(): Promise<void> {
    const rows = await database.db.selectFrom('files').selectAll().where('directory_id', '=', jail.id).execute();
    const paths = new Map(rows.map((row) => [pathOf(row.path), row]));
    for (const [path] of disk.files()) {
      const found = disk.lstat(path);
      const row = paths.get(path);
      paths.delete(path);
      if (found && (!row || !isSame(row, fileStat(found)))) recorder.look(jail, path, 0);
    }
    for (const path of paths.keys()) recorder.look(jail, path, 0);
  }

  disk.changed = (path) => {
    if (random(10) < SEEN_OF_TEN) recorder.look(jail, path, 2000);
  };

  function deliver(): void {
    const line = written[read];
    if (!line) return;
    read += 1;
    const opened = /^session opened .* from \[(.*)\]$/.exec(line.text);
    trace(`  < ${line.pid} ${line.text}`);
    const { pid, text, at } = line;
    if (opened) recorder.storyOf(jail).begin({ by: { pid, address: opened[1] ?? '' }, openedAt: at, born: undefined });
    else recorder.add(jail, { pid, text, at, isFresh: true });
    for (const waiter of heard.splice(0)) {
      if (waiter.upTo <= read) waiter.resolve();
      else heard.push(waiter);
    }
  }

  function log(pid: number, text: string): void {
    trace(`${pid} ${text}`);
    // The listener notes the time when it takes the line from the socket.
    const late = random(4) === 0 ? random(story.lag + 1) : random(300);
    lastRead = Math.max(lastRead, time.now + late);
    const line = { pid, text, at: lastRead };
    written.push(line);
    time.in(lastRead - time.now, deliver);
  }

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
      nextSize: () => (size += 1),
      log: (text) => log(pid, text),
      ended(noticed) {
        sessions.delete(pid);
        live -= 1;
        if (!noticed) return;
        time.in(5_000_000, () => {
          noticed();
          void recorder.read(jail.id).then(() => recorder.known(jail.id)?.end(pid, time.now, 'died'));
        });
      },
    });
    time.in(begins, () => {
      sessions.set(pid, session);
      session.play(steps, end);
    });
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
      const nextMs = await recorder.turn();
      due = nextMs === undefined ? undefined : Math.max(nextMs * 1000, time.now + 300);
    }
    await setImmediate();
    await comparing;
    if (turns > 20_000) return ['it never ends', ...seen];
  }
  const found = await check();
  return found.length === 0 ? [] : [...found, ...seen];

  async function check(): Promise<string[]> {
    const faults: string[] = [];
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
    }
    for (const path of byPath.keys()) faults.push(`a row without a file: ${path}`);
    if (story.isOrderly) faults.push(...(await announcedWrongly()));
    const { storage_bytes: storage } = await database.db
      .selectFrom('directories')
      .select('storage_bytes')
      .where('id', '=', jail.id)
      .executeTakeFirstOrThrow();
    const sum = disk.files().reduce((total, [, inode]) => total + inode.size, 0);
    if (faults.length === 0 && storage !== sum) faults.push(`storage_bytes is ${storage}, the disk has ${sum}`);
    return faults;
  }

  /** Uploads that were not announced once, or were though they had been dropped. */
  async function announcedWrongly(): Promise<string[]> {
    const wrong: string[] = [];
    const transfers = await database.db
      .selectFrom('transfers')
      .select(['path', 'bytes', 'event'])
      .where('directory_id', '=', jail.id)
      .where('event', '=', 'uploaded')
      .execute();
    // What was appended under a lagging log may get the size of another session's file.
    const isOfIt = ({ bytes, path }: (typeof transfers)[number]): boolean => {
      const names = truth.names.get(bytes ?? 0);
      return names === undefined || names.has(path ?? '');
    };
    const times = Map.groupBy(transfers.filter(isOfIt), ({ bytes }) => bytes ?? 0);
    for (const [bytes, path] of truth.promised) {
      const count = times.get(bytes)?.length ?? 0;
      if (count !== 1) wrong.push(`${path} ${bytes} was announced ${count} times`);
      else {
        const name = times.get(bytes)?.[0]?.path ?? '';
        const isOwn =
          name === path || (truth.names.get(bytes)?.has(name) === true && (isTemporary(path) || !isTemporary(name)));
        if (!isOwn) wrong.push(`${path} ${bytes} was announced as ${name}`);
      }
    }
    for (const [bytes, why] of truth.forbidden) {
      if (times.has(bytes) && !truth.promised.has(bytes)) wrong.push(`${bytes} was announced, though it was ${why}`);
    }
    return wrong;
  }
}

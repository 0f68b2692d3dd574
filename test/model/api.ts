/**
 * The API's own files on the model's disk, with the rows of a real database: what `files/placing.ts`, `files/removal.ts` and
 * `files/deferred-removal.ts` write, in their order. (Those work on a real disk.)
 */
import type { Database } from '../../src/foundation/db/open.ts';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import { pathOf } from '../../src/arrivals/uploads/file-path.ts';
import type { Jail } from '../../src/arrivals/uploads/jails.ts';
import { fileStat, isAsRecorded, isSame } from '../../src/arrivals/uploads/record/file-stat.ts';
import { Files } from '../../src/arrivals/uploads/record/files.ts';
import { historyRow } from '../../src/arrivals/uploads/record/transfer-history.ts';
import type { ModelDisk } from './disk.ts';
import type { Random } from './random.ts';
import type { ModelTime } from './time.ts';
import type { Truth } from './truth.ts';

/** How often a removal that waits is tried, and how long it waits at most, in µs: often it ends while sessions go on. */
const TRIED_EVERY = 20_000;
const LONGEST_WAITS = [1000, 20_000, 30_000_000];

export interface ApiStep {
  /** `deleteLater`: the file stays on the disk while its session may ask for it. */
  readonly kind: 'put' | 'delete' | 'deleteLater';
  readonly at: number;
  readonly path: string;
}

export interface ApiOptions {
  readonly disk: ModelDisk;
  readonly time: ModelTime;
  readonly random: Random;
  readonly truth: Truth;
  readonly database: Database;
  readonly jail: Jail;
  readonly trace: (text: string) => void;
  readonly nextSize: () => number;
  readonly look: (path: string) => void;
  /** `serve` is away: nobody answers. */
  readonly isAway: () => boolean;
  readonly isHeld: (inode: number) => boolean;
  /** Whether any session is live. */
  readonly hasSessions: () => boolean;
  readonly fault: (text: string) => void;
  /** Something to wait for before anything else happens. */
  readonly inDatabase: (job: Promise<void>) => void;
}

export class Api {
  readonly #options: ApiOptions;

  constructor(options: ApiOptions) {
    this.#options = options;
  }

  do(step: ApiStep): void {
    const { isAway, inDatabase, trace } = this.#options;
    if (isAway()) return;
    trace(`by the API: ${step.kind} ${step.path}`);
    if (step.kind === 'put') inDatabase(this.#put(step.path));
    else if (step.kind === 'delete') inDatabase(this.#delete(step.path));
    else inDatabase(this.#deleteLater(step.path));
  }

  async #deleteLater(path: string): Promise<void> {
    const { disk, time, random, database, jail, isAway, hasSessions, isHeld, inDatabase, trace } = this.#options;
    const marked = await database.db.transaction().execute(async (tx) => {
      const files = new Files(tx, jail.id);
      const row = await files.at(path);
      const there = disk.lstat(path);
      if (row?.state !== 'uploaded' && row?.state !== 'placed' && row?.state !== 'partial') return undefined;
      if (!there?.isFile() || !isSame(row, fileStat(there)) || isHeld(there.ino)) return undefined;
      const directory = await tx
        .selectFrom('directories')
        .selectAll()
        .where('id', '=', jail.id)
        .executeTakeFirstOrThrow();
      const event = { event: 'removed', path, at: time.now, bytes: row.size_bytes } as const;
      await files.update(row, { state: 'removed' });
      await files.flush();
      await insertTransfers(tx, [historyRow(directory, event).row]);
      return { id: row.id, writes: disk.at(path)?.writes ?? 0 };
    });
    if (!marked) return;
    trace(`${path} is removed`);
    const over = time.now + (LONGEST_WAITS[random(LONGEST_WAITS.length)] ?? 0);
    const tryToEnd = (): void => {
      if (isAway() || (hasSessions() && time.now < over)) return time.in(TRIED_EVERY, tryToEnd);
      const again = (isOver: boolean): void => (isOver ? undefined : time.in(TRIED_EVERY, tryToEnd));
      inDatabase(this.#end(marked).then(again));
    };
    time.in(random(TRIED_EVERY), tryToEnd);
  }

  /** As `DeferredRemovals` takes a file from the disk. @returns whether the removal is over. */
  async #end({ id, writes }: { readonly id: string; readonly writes: number }): Promise<boolean> {
    const { disk, database, isHeld, look, fault, trace } = this.#options;
    const removed = database.db.selectFrom('files').selectAll().where('id', '=', id).where('state', '=', 'removed');
    const row = await removed.executeTakeFirst();
    if (!row) return true;
    const path = pathOf(row.path);
    const there = disk.lstat(path);
    if (!there?.isFile() || !isAsRecorded(row, fileStat(there))) {
      look(path);
      return false;
    }
    if (isHeld(there.ino)) return false;
    await database.db.deleteFrom('files').where('id', '=', id).execute();
    if (disk.at(path)?.writes !== writes) fault(`${path} was written after its removal, and is gone`);
    trace(`${path} leaves the disk`);
    disk.remove(path);
    disk.sync(path);
    return true;
  }

  async #put(path: string): Promise<void> {
    const { disk, time, truth, database, jail, nextSize, look } = this.#options;
    const size = nextSize();
    const coming = `.transit ${size}`;
    const inode = disk.open(coming, { create: true, truncate: true }, time.now);
    if (!inode) return;
    disk.write(inode, size, time.now);
    disk.close(inode);
    disk.sync(coming);
    const of = { directory_id: jail.id, inode: inode.ino };
    await database.db.transaction().execute(async (tx) => {
      await tx.deleteFrom('placements').where('directory_id', '=', jail.id).where('inode', '=', inode.ino).execute();
      const values = { ...of, mtime: inode.mtime, size_bytes: size, inserted_at: time.now };
      await tx.insertInto('placements').values(values).execute();
    });
    const replaced = disk.at(path);
    if (replaced && !replaced.isFolder) truth.disturbed(replaced);
    if (!disk.rename(coming, path, false, time.now)) {
      disk.remove(coming);
      await database.db.deleteFrom('placements').where('inode', '=', inode.ino).execute();
      return;
    }
    disk.sync(path);
    truth.forbidden.set(size, 'put by the API');
    look(path);
  }

  async #delete(path: string): Promise<void> {
    const { disk, time, truth, database, jail, isHeld } = this.#options;
    await database.db.transaction().execute(async (tx) => {
      const files = new Files(tx, jail.id);
      const row = await files.at(path);
      const there = disk.lstat(path);
      if (!row || !there?.isFile() || !isSame(row, fileStat(there)) || isHeld(there.ino)) return;
      const inode = disk.at(path);
      if (inode) truth.disturbed(inode);
      disk.remove(path);
      disk.sync(path);
      const directory = await tx
        .selectFrom('directories')
        .selectAll()
        .where('id', '=', jail.id)
        .executeTakeFirstOrThrow();
      const event = { event: 'removed', path, at: time.now, bytes: row.size_bytes } as const;
      await files.remove(row);
      await files.flush();
      await insertTransfers(tx, [historyRow(directory, event).row]);
    });
  }
}

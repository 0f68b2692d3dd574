/**
 * The API's own files on the model's disk, with the rows of a real database: what `files/placing.ts` and `files/removal.ts` write,
 * in their order. (Those work on a real disk.)
 */
import type { Database } from '../../src/foundation/db/open.ts';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import type { Jail } from '../../src/arrivals/uploads/jails.ts';
import { fileStat, isSame } from '../../src/arrivals/uploads/record/file-stat.ts';
import { Files } from '../../src/arrivals/uploads/record/files.ts';
import { historyRow } from '../../src/arrivals/uploads/record/transfer-history.ts';
import type { ModelDisk } from './disk.ts';
import type { ModelTime } from './time.ts';
import type { Truth } from './truth.ts';

export interface ApiStep {
  readonly kind: 'put' | 'delete';
  readonly at: number;
  readonly path: string;
}

export interface ApiOptions {
  readonly disk: ModelDisk;
  readonly time: ModelTime;
  readonly truth: Truth;
  readonly database: Database;
  readonly jail: Jail;
  readonly trace: (text: string) => void;
  readonly nextSize: () => number;
  readonly look: (path: string) => void;
  /** `serve` is away: nobody answers. */
  readonly isAway: () => boolean;
  readonly isHeld: (inode: number) => boolean;
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
    inDatabase(step.kind === 'put' ? this.#put(step.path) : this.#delete(step.path));
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

/** Adapts a restored database to files that were copied, and to what has happened since the backup. */
import { type Micros, systemClock } from '../../foundation/base/clock.ts';
import { forgottenInode } from '../../foundation/db/forgotten-inodes.ts';
import type { Database } from '../../foundation/db/open.ts';
import { skipUids } from '../../foundation/db/shared.ts';
import { FIRST_UID } from '../../rules/directories/create.ts';
import { skipNumbers } from '../../rules/history/events.ts';
import { randomText } from '../../foundation/base/random-text.ts';

/** More UIDs than can have been given out since the backup. The range below 2^31 holds 2,600 times as many. */
const SKIPPED_UIDS = 100_000;

export interface RestoredRows {
  readonly directories: number;
  readonly files: number;
  /** Webhooks that were still to be sent. */
  readonly pending: number;
  /** The SFTP users of live directories. */
  readonly usernames: readonly string[];
}

/**
 * In one transaction, for the rows of this node and those that all nodes share:
 * - Files: a copied file keeps its size and mtime, but has another inode. So the rows forget their inode, and the first scan notes the
 *   new one. A file that waited for its session to rename it counts as changed: its session is over, so the scan announces it.
 * - Sessions and links of the dashboard's users are removed: they may have ended since the backup.
 * - UIDs, usernames and numbers of events that were given out after the backup are unknown here, and must not be given out again. So
 *   part of each range is skipped, and readers of events notice the gap.
 * - The clock takes the time since the backup as elapsed.
 *
 * Deliveries stay: those that were due when the backup was made are sent, with the same webhook-id.
 */
export async function adaptRestored({ db }: Database, node: string): Promise<RestoredRows> {
  return db.transaction().execute(async (tx) => {
    const here = tx.selectFrom('directories').select('id').where('node', '=', node);
    await tx.updateTable('files').where('directory_id', 'in', here).set({ inode: forgottenInode() }).execute();
    const noFileHasThis: Micros = -1;
    await tx
      .updateTable('files')
      .set({ mtime: noFileHasThis })
      .where('state', '=', 'waiting')
      .where('directory_id', 'in', here)
      .execute();

    await tx.deleteFrom('user_sessions').execute();
    await tx.deleteFrom('user_links').execute();

    const now = systemClock().now();
    await tx
      .updateTable('clock')
      .set((eb) => ({ seen_at: eb.case().when('seen_at', '<', now).then(now).else(eb.ref('seen_at')).end(), lead: 0 }))
      .execute();
    const username = `restored-${randomText('abcdefghijklmnopqrstuvwxyz0123456789', 16)}`;
    await skipUids(tx, FIRST_UID, SKIPPED_UIDS, username);

    await skipNumbers(tx);

    const live = await here.select('sftp_username').where('deleted_at', 'is', null).execute();
    const { files } = await tx
      .selectFrom('files')
      .select(({ fn }) => fn.countAll<number>().as('files'))
      .where('directory_id', 'in', here)
      .executeTakeFirstOrThrow();
    const { pending } = await tx
      .selectFrom('deliveries')
      .select(({ fn }) => fn.countAll<number>().as('pending'))
      .where('state', 'in', ['queued', 'running', 'waiting'])
      .executeTakeFirstOrThrow();
    return { directories: live.length, files, pending, usernames: live.map((row) => row.sftp_username) };
  });
}

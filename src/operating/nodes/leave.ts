/** Stops giving a node directories, and removes it for good. PostgreSQL only. */
import type { Kysely, Transaction } from 'kysely';
import { serverTime } from '../../foundation/db/shared.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { isLive } from './live.ts';

/** Stops or resumes giving a node new directories. Repeatable. @throws {OperatorError} when the node is unknown. */
export async function drainNode(db: Kysely<Tables>, name: string, isDrained: boolean): Promise<void> {
  const found = await db
    .updateTable('nodes')
    .set(({ fn, ref }) => ({ drained_at: isDrained ? fn.coalesce(ref('drained_at'), serverTime) : null }))
    .where('name', '=', name)
    .returning('name')
    .executeTakeFirst();
  if (!found) throw unknownNode(name);
}

/** @throws {OperatorError} when the node is unknown or live, or has directories. */
export function removeNode(db: Kysely<Tables>, name: string): Promise<void> {
  return db.transaction().execute(async (tx) => {
    const found = await tx
      .selectFrom('nodes as n')
      .select(isLive('n.name').as('is_live'))
      .where('n.name', '=', name)
      .forUpdate()
      .executeTakeFirst();
    if (!found) throw unknownNode(name);
    const { count } = await tx
      .selectFrom('directories')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('node', '=', name)
      .where('deleted_at', 'is', null)
      .executeTakeFirstOrThrow();
    if (count > 0) {
      const directories = count === 1 ? 'directory is' : 'directories are';
      throw new OperatorError(`${count} ${directories} at home on ${name}: nothing has changed`);
    }
    if (found.is_live) throw new OperatorError(`berth runs on ${name}: stop it there first; nothing has changed`);
    await handOver(tx, name);
    await tx.deleteFrom('leftovers').where('node', '=', name).execute();
    await tx.deleteFrom('nodes').where('name', '=', name).execute();
  });
}

/** Gives the deleted directories to some other node, which removes their rows. */
async function handOver(tx: Transaction<Tables>, name: string): Promise<void> {
  const heir = await tx.selectFrom('nodes').select('name').where('name', '<>', name).limit(1).executeTakeFirst();
  if (heir) await tx.updateTable('directories').set({ node: heir.name }).where('node', '=', name).execute();
}

function unknownNode(name: string): OperatorError {
  return new OperatorError(`no node is called ${name}: see berth node list`);
}

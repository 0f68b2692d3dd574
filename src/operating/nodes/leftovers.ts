/** What directories that have moved away have left on this node. */
import type { Kysely } from 'kysely';
import type { Tables } from '../../foundation/db/schema.ts';
import { type DirectoryHost, hostedPendingApply } from '../../rules/directories/host.ts';
import type { Config } from '../../foundation/base/config.ts';
import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isThere, syncAll } from '../../foundation/base/files.ts';
import type { Ground } from '../../foundation/context.ts';

function leftoversOf(reads: Kysely<Tables>, node: string) {
  return (
    reads
      .selectFrom('leftovers')
      .select(['directory_id as id', 'sftp_username', 'uid', 'node'])
      .where('leftovers.node', '=', node)
      // Unless the directory has returned.
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('directories')
              .select('id')
              .whereRef('directories.id', '=', 'leftovers.directory_id')
              .where('directories.node', '=', node),
          ),
        ),
      )
      .execute()
  );
}

/** Removes the remains, then their rows once no power cut can bring the remains back. Repeatable. */
export async function removeLeftovers({ config, database }: Ground, host: DirectoryHost): Promise<void> {
  const { node: here } = config;
  const { db, reads } = database;
  const left = await leftoversOf(reads, here);
  if (left.length === 0) return;
  for (const directory of left) await host.remove({ ...directory, version: 0 });
  await host.makeDurable([]);
  const ids = left.map(({ id }) => id);
  await db.deleteFrom('leftovers').where('node', '=', here).where('directory_id', 'in', ids).execute();
}

interface Due {
  /** Directories whose credentials have to match their rows again. */
  readonly rows: Awaited<ReturnType<typeof hostedPendingApply>>;
  /** Users that must not exist here any more, whatever the rows say. */
  readonly gone: readonly string[];
}

/** The changes that this node has to apply before anybody can log in. */
export async function dueHere(db: Kysely<Tables>, { node, stateDir }: Pick<Config, 'node' | 'stateDir'>): Promise<Due> {
  const rows = await hostedPendingApply(db, node);
  if (node === '') return { rows, gone: [] };
  const tombstones = tombstonesIn(stateDir);
  const isDeleted = ({ sftp_username: username }: { sftp_username: string }): boolean => tombstones.has(username);
  const gone = [...rows.filter(isDeleted), ...(await leftoversOf(db, node))];
  return { rows: rows.filter((row) => !isDeleted(row)), gone: gone.map(({ sftp_username: username }) => username) };
}

// The users whose directories were deleted on this node, an empty file for each. No username is given out twice, so
// none of them can ever log in again, even if the database has lost the deletion, for example by a failover to a
// standby that lagged.

export interface Tombstones {
  has(username: string): boolean;
  /** Resolves when no power cut can undo it. */
  add(username: string): Promise<void>;
}

export function tombstonesIn(stateDir: string): Tombstones {
  const folder = join(stateDir, 'deleted-users');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    has: (username) => isThere(join(folder, username)),
    async add(username) {
      await writeFile(join(folder, username), '', { mode: 0o600 });
      await syncAll([folder]);
    },
  };
}

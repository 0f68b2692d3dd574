/** Finds the changes that this node has to apply before anybody can log in. */
import type { Kysely } from 'kysely';
import type { Config } from '../../foundation/base/config.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { hostedPendingApply } from '../../rules/directories/host.ts';
import { leftoversOf } from './leftovers.ts';
import { tombstonesIn } from './tombstones.ts';

export interface Due {
  /** Directories whose credentials have to match their rows again. */
  readonly rows: Awaited<ReturnType<typeof hostedPendingApply>>;
  /** Users that must not exist here any more, whatever the rows say. */
  readonly gone: readonly string[];
}

export async function dueHere(db: Kysely<Tables>, { node, stateDir }: Pick<Config, 'node' | 'stateDir'>): Promise<Due> {
  const rows = await hostedPendingApply(db, node);
  if (node === '') return { rows, gone: [] };
  const tombstones = tombstonesIn(stateDir);
  const isDeleted = ({ sftp_username: username }: { sftp_username: string }): boolean => tombstones.has(username);
  const gone = [...rows.filter(isDeleted), ...(await leftoversOf(db, node))];
  return { rows: rows.filter((row) => !isDeleted(row)), gone: gone.map(({ sftp_username: username }) => username) };
}

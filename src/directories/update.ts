/**
 * Changes a directory. `updated_at` moves when the request changed something: a PATCH that repeats what is there leaves
 * it, and uploads do not touch it.
 *
 * Settings that the host knows are committed together with a mark, then applied; when that fails, the caller gets the
 * error, and the host follows as soon as it can (`unapplied.ts`). Repeating the request applies it anew. On a full disk a change
 * of credentials ends the directory's sessions, which may be what fills it.
 */
import type { Updateable } from 'kysely';
import type { Clock } from '../clock.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import { BerthError } from '../errors.ts';
import { type Asker, insertAudit } from '../history/audit.ts';
import { authFields, basicFields, type Fields } from './fields.ts';
import { HOSTED, hostedById } from './host.ts';
import { evenWhenFull, refusingWhenFull } from './storage-full.ts';
import { type Applying, markUnapplied } from './unapplied.ts';

export interface UpdateDependencies extends Applying {
  readonly clock: Clock;
}

type Changes = Updateable<DirectoriesTable>;

/**
 * Basic fields (specification, PATCH, 1). Slug and username stay. The other changes throw the same errors.
 * @param asker the request behind it, for the audit.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`.
 */
export async function updateBasics(
  deps: UpdateDependencies,
  accountId: string,
  id: string,
  fields: Fields,
  asker?: Asker,
): Promise<DirectoriesTable> {
  return change(deps, { accountId, id, asker }, basicFields(fields));
}

/** Auth settings, which count from the next login (specification, PATCH, 2). Other fields are not looked at. */
export async function updateAuth(
  deps: UpdateDependencies,
  accountId: string,
  id: string,
  fields: Fields,
  asker?: Asker,
): Promise<DirectoriesTable> {
  const { auth_mode, public_key } = authFields(fields);
  const changes = {
    ...(auth_mode && { auth_mode }),
    ...(public_key && { public_key: public_key.line, public_key_fingerprint: public_key.fingerprint }),
  };
  return change(deps, { accountId, id, asker }, changes);
}

/** Back to the original password (specification, DELETE public_key); without a stored key it still sets the mode. */
export async function removePublicKey(
  deps: UpdateDependencies,
  accountId: string,
  id: string,
  asker?: Asker,
): Promise<DirectoriesTable> {
  const changes = { auth_mode: 'password', public_key: null, public_key_fingerprint: null } as const;
  return change(deps, { accountId, id, asker }, changes);
}

async function change(
  deps: UpdateDependencies,
  { accountId, id, asker }: { accountId: string; id: string; asker: Asker | undefined },
  changes: Changes,
): Promise<DirectoriesTable> {
  const forHost = HOSTED.some((column) => Object.hasOwn(changes, column));
  const revokes = Object.hasOwn(changes, 'auth_mode') || Object.hasOwn(changes, 'public_key');
  const work = async (): Promise<DirectoriesTable> => {
    const directory = await deps.database.db.transaction().execute(async (tx) => {
      const before = await tx
        .selectFrom('directories')
        .selectAll()
        .where('id', '=', id)
        .where('account_id', '=', accountId)
        .where('deleted_at', 'is', null)
        .executeTakeFirst();
      if (!before) return notFound();
      if (forHost) await markUnapplied(tx, id);
      if (Object.entries(changes).every(([column, value]) => before[column as keyof Changes] === value)) return before;
      const now = deps.clock.now();
      const changed = { ...changes, updated_at: now };
      await tx.updateTable('directories').set(changed).where('id', '=', id).execute();
      const after = changes as Partial<DirectoriesTable>;
      if (asker) await insertAudit(tx, asker, { action: 'update', at: now, directory: before, before, after });
      return { ...before, ...changed } as DirectoriesTable;
    });
    if (forHost) await deps.host.apply(directory);
    return directory;
  };
  return refusingWhenFull(async () => {
    if (!revokes) return work();
    const done = await evenWhenFull(deps, { accountId, id }, work, async () => {
      // As the row is now: unless it was changed, nothing is.
      const directory = await hostedById(deps.database.reads, accountId, id);
      if (directory) await deps.host.apply(directory).catch(() => undefined);
    });
    return done ?? notFound();
  });
}

function notFound(): never {
  throw new BerthError('directory_not_found', 'Directory not found');
}

/** The first step of each endpoint for a directory: finds it in the account, and says who acts. */
import type { Context } from 'hono';
import type { Principal } from '../../rules/keys/authenticate.ts';
import { notFound, type Target } from '../../rules/directories/target.ts';
import type { DirectoryQueries, ShownDirectory } from '../../rules/directories/view.ts';
import type { Actor } from '../../rules/history/audit.ts';
import type { ApiEnv } from '../web/observe.ts';

/** @throws {BerthError} `directory_not_found`, both for an unknown id and for another account's directory. */
export async function ownDirectory(
  directories: DirectoryQueries,
  { accountId }: Principal,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  return directory ?? notFound();
}

/** Like `ownDirectory`, for a rule that changes the directory. */
export async function ownTarget(
  directories: DirectoryQueries,
  c: Context<ApiEnv>,
  principal: Principal,
  id: string,
): Promise<Target> {
  await ownDirectory(directories, principal, id);
  return { accountId: principal.accountId, id, actor: actorOf(c, principal) };
}

/** The actor of a change, for the audit. */
export function actorOf(c: Context<ApiEnv>, { accountId, keyId, credential }: Principal): Actor {
  const { id, route = '' } = c.env.notes;
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}`, credential };
}

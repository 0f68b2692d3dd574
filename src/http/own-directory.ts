/** What the endpoints of a directory begin with: whose it is, and who asks. */
import type { Context } from 'hono';
import type { Principal } from '../accounts/authenticate.ts';
import { notFound, type Target } from '../directories/target.ts';
import type { DirectoryQueries, ShownDirectory } from '../directories/view.ts';
import type { Asker } from '../history/audit.ts';
import type { ApiEnv } from './observe.ts';

/** @throws {BerthError} `directory_not_found` for an unknown id and for another account's directory alike. */
export async function ownDirectory(
  directories: DirectoryQueries,
  { accountId }: Principal,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  return directory ?? notFound();
}

/** The same directory for a rule that changes something of it. */
export async function ownTarget(
  directories: DirectoryQueries,
  c: Context<ApiEnv>,
  principal: Principal,
  id: string,
): Promise<Target> {
  await ownDirectory(directories, principal, id);
  return { accountId: principal.accountId, id, asker: askerOf(c, principal) };
}

/** Who asks for a change, as the audit names it. */
export function askerOf(c: Context<ApiEnv>, { accountId, keyId, credential }: Principal): Asker {
  const { id, route = '' } = c.env.notes;
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}`, credential };
}

/** What the endpoints of a directory begin with: whose it is, and who asks. */
import type { Context } from 'hono';
import type { Principal } from '../accounts/authenticate.ts';
import type { DirectoryQueries, ShownDirectory } from '../directories/view.ts';
import { BerthError } from '../errors.ts';
import type { Asker } from '../history/audit.ts';
import type { ApiEnv } from './observe.ts';

/** @throws {BerthError} `directory_not_found` for an unknown id and for another account's directory alike. */
export async function ownDirectory(
  directories: DirectoryQueries,
  { accountId }: Principal,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}

/** Who asks for a change, as the audit names it. */
export function askerOf(c: Context<ApiEnv>, { accountId, keyId }: Principal): Asker {
  const { id, route = '' } = c.env.notes;
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}` };
}

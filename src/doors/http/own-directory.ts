/** The first step of each endpoint for a directory: finds it in the account, and says who acts. */
import type { Context } from 'hono';
import type { Principal } from '../../rules/keys/authenticate.ts';
import { notFound, type Target } from '../../rules/directories/target.ts';
import type { DirectoryQueries, ShownDirectory } from '../../rules/directories/view.ts';
import type { Actor } from '../../rules/accounts/actor.ts';
import type { Caller } from './access.ts';
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
export async function ownTarget<Result = unknown>(
  directories: DirectoryQueries,
  c: Context<ApiEnv>,
  caller: Caller,
  id: string,
  render?: (result: Result) => Response,
): Promise<Target<Result>> {
  await ownDirectory(directories, caller, id);
  return { accountId: caller.accountId, id, actor: actorOf(c, caller, render) };
}

/**
 * The actor of a change.
 * @param render makes the response of the rule's result. For a POST with an Idempotency-Key, the rule stores it.
 */
export function actorOf<Result = unknown>(
  c: Context<ApiEnv>,
  { accountId, keyId, credential, keep }: Caller,
  render?: (result: Result) => Response,
): Actor<Result> {
  const { id, route = '' } = c.env.notes;
  const response = render && keep?.(render);
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}`, credential, response };
}

/** The first step of each endpoint for a directory: finds it in the account, and says who acts. */
import type { Context } from 'hono';
import type { Principal } from '../../rules/keys/authenticate.ts';
import { type AccountTarget, notFound, type Owner, type Target } from '../../rules/directories/target.ts';
import type { DirectoryQueries, ShownDirectory } from '../../rules/directories/view.ts';
import type { Actor } from '../../rules/accounts/actor.ts';
import type { Caller } from './access.ts';
import type { ApiEnv } from '../web/observe.ts';

/** Makes the response of a rule's result. For a POST with an Idempotency-Key, the rule stores it. */
type Render<Result> = (result: Result) => Response;

/** @throws {BerthError} `directory_not_found`, both for an unknown id and for another account's directory. */
export async function ownDirectory(
  directories: DirectoryQueries,
  { accountId }: Principal,
  id: string,
): Promise<ShownDirectory> {
  const directory = await directories.byId(accountId, id);
  return directory ?? notFound();
}

/**
 * The target of a rule that changes the directory in the path. It reads the directory early, so that 404 comes before the refusals
 * of the role and the body; the rule reads it again in its transaction.
 */
export async function ownTarget<Result = unknown>(
  directories: DirectoryQueries,
  c: Context<ApiEnv, '/:id'>,
  caller: Caller,
  render?: Render<Result>,
): Promise<Target<Result>> {
  const { id } = await ownDirectory(directories, caller, c.req.param('id'));
  return { ...accountTarget(c, caller, render), id };
}

/** The target of a rule for whichever the path is about, a directory or the account. */
export function ownerIn<Result = unknown>(
  directories: DirectoryQueries,
  c: Context<ApiEnv>,
  caller: Caller,
  render?: Render<Result>,
): Promise<Owner<Result>> | Owner<Result> {
  return isOfDirectory(c) ? ownTarget(directories, c, caller, render) : accountTarget(c, caller, render);
}

export function isOfDirectory(c: Context<ApiEnv>): c is Context<ApiEnv, '/:id'> {
  return c.req.param('id') !== undefined;
}

/** The target of a rule that changes the account. */
export function accountTarget<Result = unknown>(
  c: Context<ApiEnv>,
  caller: Caller,
  render?: Render<Result>,
): AccountTarget<Result> & { readonly actor: Actor<Result> } {
  const { accountId, keyId, credential, keep } = caller;
  const { id: requestId, route } = c.env.notes;
  const response = render && keep?.(render);
  return {
    accountId,
    actor: { accountId, keyId, requestId, route: `${c.req.method} ${route}`, credential, response },
  };
}

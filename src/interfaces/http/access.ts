/**
 * Decides who may make a request. It refuses in this order: 401, 429, 403 for the plan, the refusals of the key's scope, and
 * 403 for the role in endpoints that require one. It is one function around the handler, not a chain of middlewares, because
 * every request pays for it.
 */
import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { Principal } from '../../rules/api-keys/authenticate.ts';
import { requireApi } from '../../rules/accounts/accounts.ts';
import {
  type AccountTarget,
  requireChanges,
  requireDirectory,
  requireWholeAccount,
  type StoredResponse,
} from '../../rules/accounts/actor.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Store } from '../../foundation/context.ts';
import { readBody } from './body.ts';
import type { Web } from '../web/context.ts';
import type { ApiEnv } from '../web/observe.ts';
import { notFound, type Owner, type Target } from '../../rules/directories/target.ts';
import { directoryById, type ShownDirectory } from '../../rules/directories/view.ts';

/** Stores the response that `render` makes of a rule's result (`idempotency.ts`). */
export type Keep = <Result>(render: (result: Result) => Response) => StoredResponse<Result>;

/** The sender of a request. */
export interface Caller extends Principal {
  /** For a POST with an Idempotency-Key. */
  readonly keep?: Keep;
}

/** An endpoint. `Path` has its parameters, such as `/:id`. */
export type Endpoint<Path extends string = string> = (
  c: Context<ApiEnv, Path>,
  caller: Caller,
) => Response | Promise<Response>;

/** RFC 6750, section 2.1; schemes are case-insensitive. */
const BEARER = /^Bearer +([^\s,]+) *$/i;

/** The request's bearer token, valid or not. */
export function apiKeyOf({ headers }: IncomingMessage): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

export interface Identify {
  /**
   * The principal of the request; undefined when the key is not valid. Counts the request against its account.
   * @param isAgain whether the request was counted already.
   * @throws {BerthError} `rate_limited`.
   */
  (env: ApiEnv['Bindings'], isAgain?: boolean): Promise<Principal | undefined>;
  /** Counts a request that needs no key and has none. @throws {BerthError} `rate_limited`. */
  countStranger(env: ApiEnv['Bindings']): void;
}

/** Identifies requests over the network by their API key. */
export function byApiKey({ authenticate, lastUsed, accountLimit, addressLimit, clientAddress }: Web): Identify {
  // A request counts against its account or its client's address, never both: a flood from the same address does not use up
  // an account's limit.
  const identify = async ({ incoming, notes }: ApiEnv['Bindings'], isAgain = false): Promise<Principal | undefined> => {
    const key = apiKeyOf(incoming);
    const principal = key === undefined ? undefined : await authenticate(key);
    if (isAgain) return principal;
    if (principal) {
      notes.principal = principal;
      lastUsed.note(principal.keyId);
      await accountLimit.take(principal.accountId);
    }
    return principal;
  };
  return Object.assign(identify, {
    countStranger: ({ incoming }: ApiEnv['Bindings']) => addressLimit.take(clientAddress(incoming)),
  });
}

/** Counts a request to an endpoint that needs no key. With a key, it still counts against the account. */
export async function countOpen(identify: Identify, env: ApiEnv['Bindings']): Promise<void> {
  if (!(await identify(env))) identify.countStranger(env);
}

/** What an endpoint reaches. The key's scope must cover it; a change checks the scope again in its transaction. */
export interface Reach {
  /** The directory in the path, or the whole account. A `narrowed` endpoint shows a limited key only the key's directories. */
  readonly of: 'directory' | 'account' | 'narrowed';
  readonly isChange: boolean;
}

function requireReach({ scope }: Principal, { of, isChange }: Reach, id = ''): void {
  if (of === 'directory') requireDirectory(scope, id);
  if (of === 'account') requireWholeAccount(scope);
  if (isChange) requireChanges(scope);
}

export function createAccess(identify: Identify) {
  async function admitted(env: ApiEnv['Bindings'], isAgain = false): Promise<Principal> {
    const principal = await identify(env, isAgain);
    if (!principal) throw new BerthError('unauthenticated', 'Invalid or missing API key');
    requireApi(principal.plan);
    return principal;
  }

  /**
   * Wraps an endpoint so that only accounts whose plan includes the API reach it. A request without a valid key is refused
   * before its body is read, so that it takes no memory. A change verifies the key again in its transaction. A stored response
   * has none, so for that the key is looked up again once the body has arrived.
   * @param readsBody whether the endpoint reads a body of at most 64 KiB.
   */
  function authorized<Path extends string>(
    endpoint: Endpoint<Path>,
    reach: Reach,
    readsBody: (incoming: IncomingMessage) => boolean,
  ) {
    return async (c: Context<ApiEnv, Path>): Promise<Response> => {
      c.env.notes.route = routePath(c);
      const principal = await admitted(c.env);
      requireReach(principal, reach, c.req.param('id'));
      const { incoming } = c.env;
      if (!readsBody(incoming)) return endpoint(c, principal);
      // If reading fails, the endpoint gets the same error when it reads the body.
      await readBody(incoming).catch(() => undefined);
      const mayBeStored = incoming.headers['idempotency-key'] !== undefined;
      return endpoint(c, mayBeStored ? await admitted(c.env, true) : principal);
    };
  }

  /** Wraps an endpoint that needs no key. Its requests are counted like all others. */
  function open(endpoint: (c: Context<ApiEnv>) => Response | Promise<Response>) {
    return async (c: Context<ApiEnv>): Promise<Response> => {
      c.env.notes.route = routePath(c);
      await countOpen(identify, c.env);
      return endpoint(c);
    };
  }

  return { authorized, open };
}

/** @throws {BerthError} `not_authorized` unless the key has the admin role (specification, "Authentication" 7). */
export function requireAdmin({ role }: Principal): void {
  if (role !== 'admin') throw new BerthError('not_authorized', 'Not authorized');
}

/** Makes the response of a rule's result. For a POST with an Idempotency-Key, the rule stores it. */
type Render<Result> = (result: Result) => Response;

/** @throws {BerthError} `directory_not_found`, both for an unknown id and for another account's directory. */
export async function ownDirectory({ database }: Store, { accountId }: Principal, id: string): Promise<ShownDirectory> {
  return (await directoryById(database.reads, accountId, id)) ?? notFound();
}

/**
 * The target of a rule that changes the directory in the path. It reads the directory early, so that 404 comes before the refusals
 * of the role and the body; the rule reads it again in its transaction.
 */
export async function ownTarget<Result = unknown>(
  context: Store,
  c: Context<ApiEnv, '/:id'>,
  caller: Caller,
  render?: Render<Result>,
): Promise<Target<Result>> {
  const { id } = await ownDirectory(context, caller, c.req.param('id'));
  return { ...accountTarget(c, caller, render), id };
}

/** The target of a rule for whichever the path is about, a directory or the account. */
export function ownerIn<Result = unknown>(
  context: Store,
  c: Context<ApiEnv>,
  caller: Caller,
  render?: Render<Result>,
): Promise<Owner<Result>> | Owner<Result> {
  return isOfDirectory(c) ? ownTarget(context, c, caller, render) : accountTarget(c, caller, render);
}

export function isOfDirectory(c: Context<ApiEnv>): c is Context<ApiEnv, '/:id'> {
  return c.req.param('id') !== undefined;
}

/** The target of a rule that changes the account. */
export function accountTarget<Result = unknown>(
  c: Context<ApiEnv>,
  caller: Caller,
  render?: Render<Result>,
): AccountTarget<Result> {
  const { accountId, keyId, credential, keep } = caller;
  const { id: requestId, route } = c.env.notes;
  const response = render && keep?.(render);
  return {
    accountId,
    actor: { keyId, requestId, route: `${c.req.method} ${route}`, credential, response },
  };
}

/**
 * What stands before every endpoint, in the order in which it refuses: 401, 429, 403 for the plan. One function around
 * the handler rather than a chain of middlewares, because every request pays for it.
 */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { Authenticate, Principal } from '../accounts/authenticate.ts';
import type { LastUsed } from '../accounts/last-used.ts';
import { BerthError } from '../errors.ts';
import type { AddressLimit } from './address-limit.ts';
import type { ClientAddress } from './client-address.ts';
import type { RequestNotes } from './observe.ts';
import { requireApiPlan } from './plan.ts';
import type { RateLimit } from './rate-limit.ts';

export interface ApiEnv {
  Bindings: HttpBindings & { readonly notes: RequestNotes };
}

/** An endpoint; `Path` holds its parameters, such as `/:id`. */
export type Endpoint<Path extends string> = (
  c: Context<ApiEnv, Path>,
  principal: Principal,
) => Response | Promise<Response>;

export type Authorized = <Path extends string>(
  endpoint: Endpoint<Path>,
) => (c: Context<ApiEnv, Path>) => Promise<Response>;

/** RFC 6750, section 2.1; schemes are case-insensitive. */
const BEARER = /^Bearer +([^\s,]+) *$/i;

export interface IdentifyDependencies {
  readonly authenticate: Authenticate;
  readonly lastUsed: Pick<LastUsed, 'note'>;
  readonly rateLimit: RateLimit;
  readonly addressLimit: AddressLimit;
  readonly clientAddress: ClientAddress;
}

/**
 * Whose request it is, undefined without a valid key; counted either way, against the account or the client's address:
 * never against both, so that neither a flood nor a neighbour behind the same address costs an account anything.
 * @throws {BerthError} `rate_limited`.
 */
export type Identify = (env: ApiEnv['Bindings']) => Promise<Principal | undefined>;

export function identifier(deps: IdentifyDependencies): Identify {
  return async ({ incoming, notes }) => {
    const key = BEARER.exec(incoming.headers.authorization ?? '')?.[1];
    const principal = key === undefined ? undefined : await deps.authenticate(key);
    if (principal) {
      notes.principal = principal;
      deps.lastUsed.note(principal.keyId);
      deps.rateLimit.take(principal.accountId);
    } else deps.addressLimit.take(deps.clientAddress(incoming));
    return principal;
  };
}

export function authorized(identify: Identify): Authorized {
  return (endpoint) => async (c) => {
    c.env.notes.route = routePath(c);
    const principal = await identify(c.env);
    if (!principal) throw new BerthError('unauthenticated', 'Invalid or missing API key');
    requireApiPlan(principal);
    return endpoint(c, principal);
  };
}

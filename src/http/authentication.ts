/**
 * What stands before every endpoint, in the order in which it refuses: 401, 429, 403 for the plan. One function around
 * the handler rather than a chain of middlewares, because every request pays for it.
 */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import type { Authenticate, Principal } from '../accounts/authenticate.ts';
import type { LastUsed } from '../accounts/last-used.ts';
import { BerthError } from '../errors.ts';
import { requireApiPlan } from './plan.ts';
import type { RateLimit } from './rate-limit.ts';

export interface ApiEnv {
  Bindings: HttpBindings;
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

export function authorized({
  authenticate,
  lastUsed,
  rateLimit,
}: {
  authenticate: Authenticate;
  lastUsed: Pick<LastUsed, 'note'>;
  rateLimit: RateLimit;
}): Authorized {
  return (endpoint) => async (c) => {
    const key = BEARER.exec(c.env.incoming.headers.authorization ?? '')?.[1];
    const principal = key === undefined ? undefined : await authenticate(key);
    if (!principal) throw new BerthError('unauthenticated', 'Invalid or missing API key');
    lastUsed.note(principal.keyId);
    rateLimit.take(principal.accountId);
    requireApiPlan(principal);
    return endpoint(c, principal);
  };
}

/** Who asks for a change, as the audit names it. */
import type { Context } from 'hono';
import type { Principal } from '../../accounts/authenticate.ts';
import type { Asker } from '../../history/audit.ts';
import type { ApiEnv } from '../authentication.ts';

export function askerOf(c: Context<ApiEnv>, { accountId, keyId }: Principal): Asker {
  const { id, route = '' } = c.env.notes;
  return { accountId, keyId, requestId: id, route: `${c.req.method} ${route}` };
}

/** What the pages of the dashboard find with a request, and what they are made of. */
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { Target } from '../directories/target.ts';
import type { Asker } from '../history/audit.ts';
import type { ApiEnv } from '../http/observe.ts';
import type { SignedIn, Visit } from '../users/sessions.ts';
import type { UserChange } from '../users/users.ts';

export interface DashboardEnv {
  Bindings: ApiEnv['Bindings'];
  Variables: {
    /** Set for every page that needs a session. */
    user: SignedIn;
    /** What each form of this session carries. */
    csrf: string;
    visit: Visit;
  };
}

export type PageContext<Path extends string = string> = Context<DashboardEnv, Path>;

/** Who is signed in, on a page that needs nobody to be. */
export function visitorOf(c: PageContext): SignedIn | undefined {
  return c.get('user') as SignedIn | undefined;
}

/** Who asks for a change, as the audit names it. */
export function askerOf(c: PageContext): Asker {
  const { accountId, keyId } = c.get('user').principal;
  return { accountId, keyId, requestId: c.env.notes.id, route: `${c.req.method} ${routePath(c)}` };
}

/** The directory of that id, if it is the account's: the rules refuse every other. */
export function targetOf(c: PageContext, id: string): Target {
  return { accountId: c.get('user').principal.accountId, id, asker: askerOf(c) };
}

/** A change of users that this session asks for: of a user's sessions, this one goes on. */
export function changeOf(c: PageContext): UserChange {
  return { asker: askerOf(c), goesOn: c.get('user').sessionId };
}

/** What the pages of the dashboard find with a request, and what they are made of. */
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { DirectoriesTable } from '../db/schema.ts';
import type { Target } from '../directories/target.ts';
import type { FieldErrors } from '../errors.ts';
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
    /** Set for the pages of a directory. */
    directory: DirectoriesTable;
    /** Set when a form is shown again, for its fields to say why. */
    refused?: Refused;
    /** Set for the page that shows a PDF within itself. */
    showsPdf?: true;
  };
}

export type FormFields = Readonly<Record<string, string>>;

/** What a form said, and what is wrong with it. */
export interface Refused {
  readonly given: FormFields;
  readonly errors?: FieldErrors;
  /** What is no fault of one field. */
  readonly problem?: string;
}

export type PageContext<Path extends string = string> = Context<DashboardEnv, Path>;

/** Who is signed in, on a page that needs nobody to be. */
export function visitorOf(c: PageContext): SignedIn | undefined {
  return c.get('user') as SignedIn | undefined;
}

/** Who asks for a change, as the audit names it. */
export function askerOf(c: PageContext): Asker {
  const { accountId, keyId, credential } = c.get('user').principal;
  return { accountId, keyId, requestId: c.env.notes.id, route: `${c.req.method} ${routePath(c)}`, credential };
}

export function isAdmin(c: PageContext): boolean {
  return c.get('user').principal.role === 'admin';
}

/** The path of this directory's pages. */
export function pathOf(c: PageContext): string {
  return `/dashboard/directories/${c.get('directory').id}`;
}

/** This directory, or the one of that id if it is the account's: the rules refuse every other. */
export function targetOf(c: PageContext, id = c.get('directory').id): Target {
  return { accountId: c.get('user').principal.accountId, id, asker: askerOf(c) };
}

/** A change of users that this session asks for: of a user's sessions, this one goes on. */
export function changeOf(c: PageContext): UserChange {
  return { asker: askerOf(c), goesOn: c.get('user').sessionId };
}

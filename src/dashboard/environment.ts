/** The variables that the dashboard's pages find with a request, and their dependencies. */
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { DirectoriesTable } from '../db/schema.ts';
import type { Target } from '../directories/target.ts';
import type { FieldErrors } from '../base/errors.ts';
import type { Actor } from '../history/audit.ts';
import type { ApiEnv } from '../web/observe.ts';
import type { SignedIn, Visit } from '../users/sessions.ts';
import type { UserChange } from '../users/users.ts';

export interface DashboardEnv {
  Bindings: ApiEnv['Bindings'];
  Variables: {
    /** Set for every page that needs a session. */
    user: SignedIn;
    /** The token that each form of this session carries. */
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

/** A refused form: its fields, and the errors. */
export interface Refused {
  readonly given: FormFields;
  readonly errors?: FieldErrors;
  /** An error that belongs to no single field. */
  readonly problem?: string;
}

export type PageContext<Path extends string = string> = Context<DashboardEnv, Path>;

/** The signed-in user, on a page that works without one. */
export function visitorOf(c: PageContext): SignedIn | undefined {
  return c.get('user') as SignedIn | undefined;
}

/** The actor of a change, for the audit. */
export function actorOf(c: PageContext): Actor {
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
  return { accountId: c.get('user').principal.accountId, id, actor: actorOf(c) };
}

/** A change of users that this session asks for: of a user's sessions, this one goes on. */
export function changeOf(c: PageContext): UserChange {
  return { actor: actorOf(c), keptSession: c.get('user').sessionId };
}

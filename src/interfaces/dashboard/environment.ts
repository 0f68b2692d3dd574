/** The variables that the dashboard's pages get with a request, and functions that read them. */
import type { Context } from 'hono';
import { routePath } from 'hono/route';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { AccountTarget } from '../../rules/accounts/actor.ts';
import type { Target } from '../../rules/directories/target.ts';
import type { FieldErrors } from '../../foundation/base/errors.ts';
import type { ApiEnv } from '../web/observe.ts';
import type { SignedIn, Visit } from '../../rules/users/sessions.ts';
import type { UserTarget } from '../../rules/users/users.ts';
import type { FailedLogin } from '../../operating/reports/failed-logins.ts';
import type { WebhookState } from '../../deliveries/webhooks/health.ts';

export interface DashboardEnv {
  Bindings: ApiEnv['Bindings'];
  Variables: {
    /** Set for every page that requires a session. */
    user: SignedIn;
    /** The token in each form of this session. */
    csrf: string;
    visit: Visit;
    /** Set for the pages of a directory. */
    directory: DirectoryRow;
    access: AccessState;
    /** Reads what the line below the directory's name says. */
    status: () => Promise<DirectoryStatus>;
    /** Set when a form is shown again because it was refused, so that its fields say why. */
    refused?: Refused;
  };
}

/** Whether customers can log in to a directory, for the header of its pages. */
export type AccessState =
  | { readonly kind: 'live' }
  | { readonly kind: 'no-key' }
  | { readonly kind: 'expired'; readonly at: Micros }
  /** `by` and `at` are missing when the audit does not have the change any more. */
  | { readonly kind: 'suspended'; readonly by?: string; readonly at?: Micros };

/** What the line below a directory's name says. */
export interface DirectoryStatus {
  /** When the latest file arrived; null before the first. */
  readonly lastFile: Micros | null;
  /** How many sessions there are now. */
  readonly connected: number;
  /** Undefined if no webhooks are sent. */
  readonly webhook: WebhookState | undefined;
  /** The last failed login, unless a later login or a change of the settings has ended its cause. */
  readonly failedLogin: FailedLogin | undefined;
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

/** The directory of the page, if it is one of a directory's. */
export function directoryIn(c: PageContext): DirectoryRow | undefined {
  return c.get('directory') as DirectoryRow | undefined;
}

/** The signed-in user, if there is one, on a page that requires none. */
export function visitorOf(c: PageContext): SignedIn | undefined {
  return c.get('user') as SignedIn | undefined;
}

/** Whether the user may change who can log in, and how. */
export function isAdmin(c: PageContext): boolean {
  const { role, scope } = c.get('user').principal;
  return role === 'admin' && !scope.isReadOnly;
}

/** Whether the user has the whole account, and not certain directories only. */
export function hasAccount(c: PageContext): boolean {
  return c.get('user').principal.scope.directories === undefined;
}

/** The path of this directory's pages. */
export function pathOf(c: PageContext): string {
  return `/dashboard/directories/${c.get('directory').id}`;
}

export function accountTarget(c: PageContext): AccountTarget {
  const { accountId, keyId, credential } = c.get('user').principal;
  const route = `${c.req.method} ${routePath(c)}`;
  return { accountId, actor: { keyId, requestId: c.env.notes.id, route, credential } };
}

/** The target for this directory, or for the one with that id. The rules refuse directories of other accounts. */
export function targetOf(c: PageContext, id = c.get('directory').id): Target {
  return { ...accountTarget(c), id };
}

/** The address of our page that sent this form; undefined if that is not known. */
export function cameFrom(c: PageContext): string | undefined {
  const { pathname = '', search = '', host } = URL.parse(c.req.header('referer') ?? '') ?? {};
  return host === c.req.header('host') && pathname.startsWith('/dashboard/') ? pathname + search : undefined;
}

/** The user themselves. The session of the request stays open if the change ends the user's sessions. */
export function ownTarget(c: PageContext): UserTarget & Pick<SignedIn, 'email' | 'signedInAt'> {
  const { userId, email, sessionId, signedInAt } = c.get('user');
  return { ...accountTarget(c), userId, email, signedInAt, keptSession: sessionId };
}

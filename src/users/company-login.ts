/**
 * Signing in with the company's login, which says who somebody is and what role they have.
 *
 * Promises: nobody takes over a user of another account, or one of another person of that login. A disabled user stays out.
 */
import type { Transaction } from 'kysely';
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Role, Tables } from '../db/schema.ts';
import { type Asker, insertAccountAudit } from '../history/audit.ts';
import { endSessions, userKeyId, type Visit } from './sessions.ts';
import { enter, type Entered } from './sign-in.ts';
import { insertUser } from './users.ts';

/** What the company's login has confirmed. */
export interface CompanyUser {
  /** `<issuer> <subject>`. */
  readonly subject: string;
  readonly email: string;
  /** The account and the role that the settings give for a claim. */
  readonly accountId: string;
  readonly role: Role;
}

/**
 * Why somebody is kept out: the account is gone; the user is disabled, or is of another account; the email is that of a user
 * whom the company's login knows as somebody else.
 */
export type Refusal = 'no-account' | 'disabled' | 'other-account' | 'other-person';

type Request = Pick<Asker, 'requestId' | 'route'>;

/**
 * The user is made at the first time, or is the account's user of that email; at each further time the role, and the email
 * where it is free, become what the company's login says.
 */
export async function enterByCompanyLogin(
  { database, clock }: { readonly database: Pick<Database, 'db'>; readonly clock: Clock },
  person: CompanyUser,
  { visit, ...request }: { readonly visit: Visit } & Request,
): Promise<Entered | Refusal> {
  const now = clock.now();
  const email = person.email.trim().toLowerCase();
  return database.db.transaction().execute(async (tx) => {
    const id = await userOf(tx, { ...person, email }, { now, ...request });
    return typeof id === 'string' ? id : enter(tx, id.userId, { now, visit });
  });
}

async function userOf(
  tx: Transaction<Tables>,
  { subject, email, accountId, role }: CompanyUser,
  { now, ...request }: { readonly now: Micros } & Request,
): Promise<{ userId: string } | Refusal> {
  const account = tx.selectFrom('accounts').select('id').where('id', '=', accountId).where('deleted_at', 'is', null);
  if (!(await account.executeTakeFirst())) return 'no-account';
  const users = tx.selectFrom('users').select(['id', 'account_id', 'email', 'role', 'oidc_subject', 'disabled_at']);
  const known = await users.where('oidc_subject', '=', subject).executeTakeFirst();
  const namesake = await users.where('email', '=', email).executeTakeFirst();
  const user = known ?? namesake;
  const asker = { accountId, keyId: userKeyId(user?.email ?? email), ...request };
  if (!user) {
    const made = await insertUser(tx, { email, role, oidcSubject: subject }, { asker, now });
    return { userId: made.id };
  }
  if (user.account_id !== accountId) return 'other-account';
  if (user.oidc_subject !== null && user !== known) return 'other-person';
  if (user.disabled_at !== null) return 'disabled';
  const after = { email: namesake ? user.email : email, role, oidc_subject: subject };
  if (after.email !== user.email || role !== user.role || user !== known) {
    await tx.updateTable('users').set(after).where('id', '=', user.id).execute();
    await endSessions(tx, user.id);
    const details = {
      email: { from: user.email, to: after.email },
      role: { from: user.role, to: role },
      ...(user !== known && { company_login: { from: null, to: 'set' } }),
    };
    await insertAccountAudit(tx, asker, { at: now, action: 'update-user', details });
  }
  return { userId: user.id };
}

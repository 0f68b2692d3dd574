/**
 * Signs in with the company's login, which provides a person's identity and role.
 *
 * Promises: nobody takes over a user of another account, or the user of another person. A disabled user stays out.
 */
import type { Transaction } from 'kysely';
import { lockedAccount } from '../accounts/accounts.ts';
import type { Clock, Micros } from '../../foundation/base/clock.ts';
import type { CompanyLogin } from '../../foundation/base/config.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { Role, Tables } from '../../foundation/db/schema.ts';
import { type Actor, insertAccountAudit } from '../history/audit.ts';
import type { Claims } from './openid-provider.ts';
import { endUserSessions, userKeyId, type Visit } from './sessions.ts';
import { enter, type Entered } from './sign-in.ts';
import { foldedEmail, insertUser } from './users.ts';

interface Person {
  /** `<issuer> <subject>`. */
  readonly subject: string;
  /** In lower case. */
  readonly email: string;
  readonly accountId: string;
  readonly role: Role;
}

/**
 * Why a person may not sign in: the email is missing or not confirmed; no value of the claim is mapped to an account; the
 * account is gone; the user is disabled, or belongs to another account; or the email belongs to the user of another person.
 */
export type Refusal = 'no-email' | 'no-claim' | 'no-account' | 'disabled' | 'other-account' | 'other-person';

type Request = Pick<Actor, 'requestId' | 'route'>;

/**
 * The first time, takes the account's user with that email, or creates one. Every time after that, updates the user's role,
 * and the email if no other user has it.
 */
export async function enterByCompanyLogin(
  { database, clock }: { readonly database: Pick<Database, 'db'>; readonly clock: Clock },
  { claims, settings }: { readonly claims: Claims; readonly settings: CompanyLogin },
  { visit, ...request }: { readonly visit: Visit } & Request,
): Promise<Entered | Refusal> {
  const now = clock.now();
  const person = personOf(claims, settings);
  if (typeof person === 'string') return person;
  return database.db.transaction().execute(async (tx) => {
    const user = await userOf(tx, person, { now, ...request });
    return typeof user === 'string' ? user : enter(tx, user.id, { now, visit });
  });
}

/** The email must be confirmed by the provider. The first entry of the map with one of the person's values decides. */
function personOf(claims: Claims, { issuer, claim, map }: CompanyLogin): Person | Refusal {
  const { sub, email, email_verified: isVerified } = claims;
  const folded = typeof email === 'string' ? foldedEmail(email) : undefined;
  if (folded === undefined || isVerified !== true) return 'no-email';
  const values: unknown[] = [claims[claim]].flat();
  const place = map.find(({ value }) => values.includes(value));
  if (!place) return 'no-claim';
  const { accountId, role } = place;
  return { subject: `${issuer} ${sub}`, email: folded, accountId, role };
}

async function userOf(
  tx: Transaction<Tables>,
  { subject, email, accountId, role }: Person,
  { now, ...request }: { readonly now: Micros } & Request,
): Promise<{ id: string } | Refusal> {
  if (!(await lockedAccount(tx, accountId))) return 'no-account';
  const users = tx.selectFrom('users').select(['id', 'account_id', 'email', 'role', 'oidc_subject', 'disabled_at']);
  const known = await users.where('oidc_subject', '=', subject).executeTakeFirst();
  const namesake = await users
    .where('email', '=', email)
    .where('account_id', '=', known?.account_id ?? accountId)
    .executeTakeFirst();
  const user = known ?? namesake;
  const actor = { accountId, keyId: userKeyId(user?.email ?? email), ...request };
  if (!user) {
    return insertUser(tx, { email, role, oidcSubject: subject }, { actor, now });
  }
  if (user.account_id !== accountId) return 'other-account';
  if (user.oidc_subject !== null && user !== known) return 'other-person';
  if (user.disabled_at !== null) return 'disabled';
  const after = { email: namesake ? user.email : email, role, oidc_subject: subject };
  if (after.email !== user.email || role !== user.role || user !== known) {
    await tx.updateTable('users').set(after).where('id', '=', user.id).execute();
    await endUserSessions(tx, user.id);
    const details = {
      email: { from: user.email, to: after.email },
      role: { from: user.role, to: role },
      ...(user !== known && { company_login: { from: null, to: 'set' } }),
    };
    await insertAccountAudit(tx, actor, { at: now, action: 'update-user', details });
  }
  return user;
}

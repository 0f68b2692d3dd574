/**
 * Signs in with the company's login, which provides a person's identity and role.
 *
 * Promises: nobody takes over a user of another account, or the user of another person. A disabled user stays out.
 */
import type { Transaction } from 'kysely';
import { lockedAccount } from '../accounts/accounts.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { CompanyLogin } from '../../foundation/base/company-login-settings.ts';
import type { Store } from '../../foundation/context.ts';
import type { Role, Tables } from '../../foundation/db/schema.ts';
import type { Actor } from '../accounts/actor.ts';
import { insertAccountAudit } from '../history/audit.ts';
import { type Claims, isTrusted } from './openid-provider.ts';
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

/** Why a person may not sign in. */
export interface Refusal {
  readonly reason:
    | 'no-email'
    | 'wrong-email'
    | 'unconfirmed-email'
    | 'no-claim'
    | 'no-mapped-value'
    | 'no-account'
    | 'disabled'
    | 'other-account'
    | 'other-person';
  /** The person's email in lower case; empty if there is none. */
  readonly email: string;
  /** The claim that does not fit. */
  readonly claim: string;
  /** Its value; undefined if the provider sent none. */
  readonly value: unknown;
  readonly note?: string;
}

type Request = Pick<Actor, 'requestId' | 'route'>;

/**
 * The first time, takes the account's user with that email, or creates one. Every time after that, updates the user's role,
 * and the email if no other user has it.
 */
export async function enterByCompanyLogin(
  { database, clock }: Store,
  { claims, settings }: { readonly claims: Claims; readonly settings: CompanyLogin },
  { visit, ...request }: { readonly visit: Visit } & Request,
): Promise<Entered | Refusal> {
  const now = clock.now();
  const person = personOf(claims, settings);
  if ('reason' in person) return person;
  const { email } = person;
  return database.db.transaction().execute(async (tx) => {
    const user = await userOf(tx, person, { now, ...request });
    if (typeof user === 'object') return enter(tx, user.id, { now, visit });
    const claim = user === 'other-person' ? 'email' : settings.claim;
    return { reason: user, email, claim, value: claims[claim] };
  });
}

/** The email must be confirmed or of a trusted domain. The first entry of the map with one of the person's values decides. */
function personOf(claims: Claims, settings: CompanyLogin): Person | Refusal {
  const { issuer, claim, map } = settings;
  const { sub, email } = claims;
  const folded = typeof email === 'string' ? foldedEmail(email) : undefined;
  const refusal = (reason: Refusal['reason'], name: string): Refusal => {
    return { reason, email: folded ?? '', claim: name, value: claims[name] };
  };
  if (email === undefined) return refusal('no-email', 'email');
  if (folded === undefined) return refusal('wrong-email', 'email');
  if (!isConfirmed(claims, settings)) return refusal('unconfirmed-email', 'email_verified');
  const values: unknown[] = [claims[claim] ?? []].flat();
  const place = map.find(({ value }) => values.includes(value));
  if (place) return { subject: `${issuer} ${sub}`, email: folded, accountId: place.accountId, role: place.role };
  if (values.length > 0) return refusal('no-mapped-value', claim);
  return { ...refusal('no-claim', claim), ...(isElsewhere(claims, claim) && { note: ELSEWHERE }) };
}

/** Cognito sends text (its "UserInfo endpoint"). Entra ID never says it. */
function isConfirmed(claims: Claims, settings: CompanyLogin): boolean {
  const { email, email_verified: isVerified } = claims;
  if (isVerified === undefined) return isTrusted(email, settings);
  return isVerified === true || isVerified === 'true';
}

const ELSEWHERE =
  'the provider refers to another server for this claim, as Entra ID does for people with more than 200 groups';

/** Whether the claim is a distributed one (OpenID Connect Core 1.0, section 5.6.2), which berth does not fetch. */
function isElsewhere({ _claim_names: names }: Claims, claim: string): boolean {
  return typeof names === 'object' && names !== null && claim in names;
}

async function userOf(
  tx: Transaction<Tables>,
  { subject, email, accountId, role }: Person,
  { now, ...request }: { readonly now: Micros } & Request,
): Promise<{ id: string } | 'no-account' | 'other-account' | 'other-person' | 'disabled'> {
  if (!(await lockedAccount(tx, accountId))) return 'no-account';
  const users = tx.selectFrom('users').select(['id', 'account_id', 'email', 'role', 'oidc_subject', 'disabled_at']);
  const known = await users.where('oidc_subject', '=', subject).executeTakeFirst();
  const namesake = await users
    .where('email', '=', email)
    .where('account_id', '=', known?.account_id ?? accountId)
    .executeTakeFirst();
  const user = known ?? namesake;
  const target = { accountId, actor: { keyId: userKeyId(user?.email ?? email), ...request } };
  if (!user) {
    return insertUser(tx, target, { email, role, oidcSubject: subject }, now);
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
    await insertAccountAudit(tx, target, { at: now, action: 'update-user', details });
  }
  return user;
}

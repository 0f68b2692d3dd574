/** The users of the dashboard. Each change is one transaction with its audit, and ends the sessions of the changed user. */
import { randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import { type AccountTarget, verifyActor } from '../accounts/actor.ts';
import { lockedAccount, unknownAccount } from '../accounts/accounts.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Store } from '../../foundation/context.ts';
import type { AuditAction, Role, Tables } from '../../foundation/db/schema.ts';
import { BerthError, ValidationError } from '../../foundation/base/errors.ts';
import { insertAccountAudit } from '../history/audit.ts';
import { atMost, checked, filled, INVALID, orBlank } from '../../foundation/base/validation.ts';
import { newLink } from './password-links.ts';
import { endUserSessions } from './sessions.ts';

/** A user of an account. */
export interface UserTarget extends AccountTarget {
  readonly userId: string;
  /** Set by the command line: the account may be left without an enabled admin. */
  readonly mayLeaveNoAdmin?: true;
  /** The id of a session that is not ended: the one in which users change themselves. */
  readonly keptSession?: string;
}

/** A user without hashes and secrets. */
export type User = Awaited<ReturnType<typeof listUsers>>[number];

const SHOWN = ['id', 'account_id', 'email', 'role', 'inserted_at', 'signed_in_at', 'disabled_at'] as const;

/** An address has at most 254 characters (RFC 5321, errata 1690). */
const EMAIL_LIMIT = 254;

const NewUser = v.object({
  email: v.config(
    v.pipe(
      v.string(orBlank),
      v.trim(),
      filled,
      ...atMost(EMAIL_LIMIT),
      v.rfcEmail(INVALID),
      v.regex(/^[!-~]+$/, INVALID),
      v.toLowerCase(),
    ),
    { abortPipeEarly: true },
  ),
  role: v.picklist(['admin', 'member'], INVALID),
});

function users(db: Kysely<Tables>) {
  return db
    .selectFrom('users')
    .select(SHOWN)
    .select(({ eb }) => [
      eb('password_hash', 'is not', null).as('has_password'),
      eb('totp_secret', 'is not', null).as('has_second_factor'),
      eb
        .selectFrom('user_links')
        .select(({ fn }) => fn.max('expires_at').as('until'))
        .whereRef('user_id', '=', 'users.id')
        .as('link_expires_at'),
    ]);
}

/** The users of an account, or of all accounts, in the order of their emails. */
export function listUsers(reads: Kysely<Tables>, accountId?: string) {
  return users(reads)
    .$if(accountId !== undefined, (all) => all.where('account_id', '=', accountId ?? ''))
    .orderBy('account_id')
    .orderBy('email')
    .execute();
}

/** The account's users whose emails come after `after`, in that order. */
export function usersOf(reads: Kysely<Tables>, accountId: string, { after, limit }: { after: string; limit: number }) {
  const own = users(reads).where('account_id', '=', accountId).where('email', '>', after);
  return own.orderBy('email').limit(limit).execute();
}

/** Undefined when the account has no such user. */
export async function userById(reads: Kysely<Tables>, accountId: string, id: string): Promise<User | undefined> {
  return users(reads).where('id', '=', id).where('account_id', '=', accountId).executeTakeFirst();
}

/** The users with that email, at most one of each account. */
export async function usersByEmail(reads: Kysely<Tables>, email: string): Promise<User[]> {
  const folded = foldedEmail(email);
  return folded === undefined ? [] : users(reads).where('email', '=', folded).orderBy('account_id').execute();
}

/** Folds an email for comparison. Undefined when it is not ASCII, since other letters may fold into ASCII (U+212A into k). */
export function foldedEmail(given: string): string | undefined {
  const text = given.trim();
  return /^[!-~]+$/.test(text) ? text.toLowerCase() : undefined;
}

export interface InvitedUser {
  readonly id: string;
  readonly email: string;
  readonly token: string;
}

/**
 * Creates a user of the account, who sets a password with the link that has the returned token.
 * @throws {ValidationError} about `email` or `role`.
 * @throws {OperatorError} when there is no such account.
 */
export async function createUser(
  { database, clock }: Store,
  target: AccountTarget<InvitedUser>,
  fields: { readonly email: string; readonly role: string },
): Promise<InvitedUser> {
  const now = clock.now();
  return database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, target);
    const user = await insertUser(tx, target, fields, now);
    const invited = { ...user, token: await newLink(tx, user.id, now) };
    await target.actor?.response?.keep(tx, invited);
    return invited;
  });
}

/** Creates a user without a link, for the company's login. Throws like `createUser`. */
export async function insertUser(
  tx: Transaction<Tables>,
  target: AccountTarget<never>,
  fields: { readonly email: string; readonly role: string; readonly oidcSubject?: string },
  now: Micros,
): Promise<{ id: string; email: string }> {
  const { email, role } = checked(NewUser, fields);
  const { accountId } = target;
  if (!(await lockedAccount(tx, accountId))) throw unknownAccount(accountId);
  const id = randomUUID();
  const oidc_subject = fields.oidcSubject ?? null;
  const made = await tx
    .insertInto('users')
    .values({ id, account_id: accountId, email, role, oidc_subject, totp_step: 0, inserted_at: now })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (!made) throw new ValidationError({ email: ['has already been taken'] });
  const details = { email: { from: null, to: email }, role: { from: null, to: role } };
  await insertAccountAudit(tx, target, { at: now, action: 'create-user', details });
  return { id, email };
}

/** Does nothing if the user has that role already. Throws like `changing`. */
export async function setRole(context: Store, target: UserTarget, role: Role): Promise<void> {
  await changing(context, target, async ({ tx, user, audited }) => {
    if (user.role === role) return;
    if (role !== 'admin') await requireOtherAdmin(tx, user, target);
    await tx.updateTable('users').set({ role }).where('id', '=', user.id).execute();
    await audited('update-user', { role: { from: user.role, to: role } });
  });
}

/** A disabled user cannot sign in in any way until enabled again. Throws like `changing`. */
export async function setDisabled(context: Store, target: UserTarget, isDisabled: boolean): Promise<void> {
  await changing(context, target, async ({ tx, user, now, audited }) => {
    const wasDisabled = user.disabled_at !== null;
    if (wasDisabled === isDisabled) return;
    if (isDisabled) await requireOtherAdmin(tx, user, target);
    const disabled_at = isDisabled ? now : null;
    await tx.updateTable('users').set({ disabled_at }).where('id', '=', user.id).execute();
    await audited('update-user', { disabled: { from: wasDisabled, to: isDisabled } });
  });
}

/** Removes the password and makes a link for setting a new one. Throws like `changing`. @returns the link's token. */
export async function resetPassword(context: Store, target: UserTarget): Promise<string> {
  return changing(context, target, async ({ tx, now, audited }) => {
    await tx.updateTable('users').set({ password_hash: null }).where('id', '=', target.userId).execute();
    await audited('update-user', { password: { from: 'set', to: 'to be set' } });
    return newLink(tx, target.userId, now);
  });
}

/** Removes the user with their sessions, links and recovery codes. Throws like `changing`. */
export async function removeUser(context: Store, target: UserTarget): Promise<void> {
  await changing(context, target, async ({ tx, user, audited }) => {
    await requireOtherAdmin(tx, user, target);
    await audited('remove-user', { role: { from: user.role, to: null } });
    await tx.deleteFrom('users').where('id', '=', user.id).execute();
  });
}

export interface Changing {
  readonly tx: Transaction<Tables>;
  readonly user: User;
  readonly now: Micros;
  /** Writes the audit, and ends the user's sessions except `keptSession`. */
  audited(action: AuditAction, details: Readonly<Record<string, { from: unknown; to: unknown }>>): Promise<void>;
}

/**
 * Changes a user of the account.
 * @throws {BerthError} `user_not_found`; `last_admin` when no enabled admin would be left; and like `verifyActor`.
 */
export async function changing<T>(
  { database, clock }: Store,
  target: UserTarget,
  work: (changing: Changing) => Promise<T>,
): Promise<T> {
  return database.db.transaction().execute(async (tx) => {
    // The lock lets one change after the other decide whether another admin is left.
    const { accountId, userId, keptSession } = target;
    await lockedAccount(tx, accountId);
    await verifyActor(tx, target);
    const mine = users(tx).where('id', '=', userId).where('account_id', '=', accountId);
    const user = await mine.executeTakeFirst();
    if (!user) throw new BerthError('user_not_found', 'User not found');
    const now = clock.now();
    const who = { email: { from: user.email, to: user.email } };
    return work({
      tx,
      user,
      now,
      async audited(action, details) {
        await insertAccountAudit(tx, target, { at: now, action, details: { ...who, ...details } });
        await endUserSessions(tx, userId, keptSession);
      },
    });
  });
}

async function requireOtherAdmin(tx: Transaction<Tables>, user: User, { mayLeaveNoAdmin }: UserTarget): Promise<void> {
  if (mayLeaveNoAdmin || user.role !== 'admin' || user.disabled_at !== null) return;
  const other = await tx
    .selectFrom('users')
    .select('id')
    .where('account_id', '=', user.account_id)
    .where('id', '!=', user.id)
    .where('role', '=', 'admin')
    .where('disabled_at', 'is', null)
    .executeTakeFirst();
  if (!other)
    throw new BerthError('last_admin', `${user.email} is the account's last admin: make somebody else an admin first.`);
}

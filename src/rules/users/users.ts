/** The users of the dashboard. Each change is one transaction with its audit, and ends the sessions of the changed user. */
import { randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import { type AccountTarget, LIMITS, verifyActor, verifyOneself } from '../accounts/actor.ts';
import { DirectoryNames, idsOfDirectories } from '../accounts/limits.ts';
import { lockedAccount, unknownAccount } from '../accounts/accounts.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { Store } from '../../foundation/context.ts';
import type { AuditAction, Tables } from '../../foundation/db/schema.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';
import { insertAccountAudit } from '../history/audit.ts';
import { atMost, checked, filled, INVALID, orBlank } from '../../foundation/base/validation.ts';
import { newLink } from './password-links.ts';
import { endUserSessions } from './sessions.ts';

/** A user of an account. */
export interface UserTarget extends AccountTarget {
  readonly userId: string;
  /** Set by the command line: the account may be left without an enabled admin. */
  readonly mayLeaveNoAdmin?: true;
  /** The id of a session that is not ended: the one in which users change themselves, whatever their limits. */
  readonly keptSession?: string;
}

/** A user without hashes and secrets. */
export type User = Awaited<ReturnType<typeof listUsers>>[number];

const SHOWN = ['id', 'account_id', 'email', 'role', 'inserted_at', 'signed_in_at', 'disabled_at', ...LIMITS] as const;

/** An address has at most 254 characters (RFC 5321, errata 1690). */
const EMAIL_LIMIT = 254;

/** A user's limits. Those that are missing stay as they are; a new user has none. */
export interface UserLimits {
  readonly read_only?: boolean | undefined;
  /** Ids or SFTP usernames; null for all of the account. */
  readonly directories?: readonly string[] | null | undefined;
}

/** What a user may do. */
export interface Rights extends UserLimits {
  readonly role?: string | undefined;
}

const role = v.picklist(['admin', 'member'], INVALID);
const Limits = { read_only: v.optional(v.boolean()), directories: v.optional(v.nullable(DirectoryNames)) };
const NewRights = v.object({ role: v.optional(role), ...Limits });

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
  role,
  ...Limits,
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
 * @throws {ValidationError} about `email`, `role` or `directories`.
 * @throws {OperatorError} when there is no such account.
 */
export async function createUser(
  { database, clock }: Store,
  target: AccountTarget<InvitedUser>,
  fields: { readonly email: string; readonly role: string } & UserLimits,
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
  fields: { readonly email: string; readonly role: string; readonly oidcSubject?: string } & UserLimits,
  now: Micros,
): Promise<{ id: string; email: string }> {
  const { email, role: given, read_only = false, directories: named = null } = checked(NewUser, { ...fields });
  const { accountId } = target;
  if (!(await lockedAccount(tx, accountId))) throw unknownAccount(accountId);
  const id = randomUUID();
  const oidc_subject = fields.oidcSubject ?? null;
  const directories = named && (await idsOfDirectories(tx, accountId, named));
  const made = await tx
    .insertInto('users')
    .values({
      id,
      account_id: accountId,
      email,
      role: given,
      oidc_subject,
      totp_step: 0,
      inserted_at: now,
      read_only: read_only ? 1 : 0,
      directories: directories && JSON.stringify(directories),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (!made) throw wrongField('email', 'taken');
  const details = {
    email: { from: null, to: email },
    role: { from: null, to: given },
    ...(read_only && { read_only: { from: null, to: true } }),
    ...(directories && { directories: { from: null, to: directories } }),
  };
  await insertAccountAudit(tx, target, { at: now, action: 'create-user', details });
  return { id, email };
}

/**
 * Changes what the user may do. Does nothing if the user may do that already. Throws like `changing`.
 * @throws {ValidationError} about `role` or `directories`.
 */
export async function setRights(context: Store, target: UserTarget, rights: Rights): Promise<void> {
  const given = checked(NewRights, { ...rights });
  await changing(context, target, async ({ tx, user, audited }) => {
    const before = { role: user.role, read_only: user.read_only === 1, directories: directoriesOf(user) };
    const named =
      given.directories && (await idsOfDirectories(tx, target.accountId, given.directories, before.directories ?? []));
    const after = {
      role: given.role ?? before.role,
      read_only: given.read_only ?? before.read_only,
      directories: named === undefined ? before.directories : named,
    };
    const changes = (['role', 'read_only', 'directories'] as const)
      .filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))
      .map((field) => [field, { from: before[field], to: after[field] }] as const);
    if (changes.length === 0) return;
    if (after.role !== 'admin' || after.read_only || after.directories) await requireOtherAdmin(tx, user, target);
    const row = {
      role: after.role,
      read_only: after.read_only ? (1 as const) : (0 as const),
      directories: after.directories && JSON.stringify(after.directories),
    };
    await tx.updateTable('users').set(row).where('id', '=', user.id).execute();
    await audited('update-user', Object.fromEntries(changes));
  });
}

/** The ids of the directories that the user is limited to; null for all of the account. */
export function directoriesOf({ directories }: Pick<User, 'directories'>): readonly string[] | null {
  return directories === null ? null : (JSON.parse(directories) as string[]);
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
    await (keptSession === undefined ? verifyActor(tx, target) : verifyOneself(tx, target));
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

/** Only an admin without limits can change users. */
async function requireOtherAdmin(tx: Transaction<Tables>, user: User, { mayLeaveNoAdmin }: UserTarget): Promise<void> {
  const { role: own, disabled_at, read_only, directories } = user;
  if (mayLeaveNoAdmin || own !== 'admin' || disabled_at !== null || read_only === 1 || directories !== null) return;
  const other = await tx
    .selectFrom('users')
    .select('id')
    .where('account_id', '=', user.account_id)
    .where('id', '!=', user.id)
    .where('role', '=', 'admin')
    .where('disabled_at', 'is', null)
    .where('read_only', '=', 0)
    .where('directories', 'is', null)
    .executeTakeFirst();
  if (!other)
    throw new BerthError('last_admin', `${user.email} is the account's last admin: make somebody else an admin first.`);
}

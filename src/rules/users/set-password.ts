/** Sets a user's password, which ends the user's other sessions and links. */
import type { Kysely } from 'kysely';
import type { Store } from '../../foundation/context.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Actor } from '../accounts/actor.ts';
import { endLinks, ownerOfLink } from './password-links.ts';
import type { Passwords } from './passwords.ts';
import { userKeyId, type Visit } from './sessions.ts';
import { enter, type Entered } from './sign-in.ts';
import { changing, type UserTarget } from './users.ts';

export interface PasswordContext extends Store {
  readonly passwords: Passwords;
}

/**
 * `target.keptSession` is the session of the request, which goes on.
 * @throws {ValidationError} about `password`.
 */
export async function setPassword(
  context: PasswordContext,
  target: UserTarget & { readonly email: string },
  password: string,
): Promise<void> {
  const { userId, email } = target;
  const beside = await hashBeside(context.database.reads, { id: userId, email });
  const password_hash = await context.passwords.hash(password, email, beside);
  await changing(context, target, async ({ tx, audited }) => {
    await tx.updateTable('users').set({ password_hash }).where('id', '=', userId).execute();
    await endLinks(tx, userId);
    await audited('update-user', { password: { from: null, to: 'set' } });
  });
}

/**
 * Sets the password, uses up the link, and signs its owner in.
 * @returns undefined when the link does not work any more.
 * @throws {ValidationError} about `password`; the link still works then.
 */
export async function setPasswordByLink(
  context: PasswordContext,
  { token, password }: { readonly token: string; readonly password: string },
  { visit, ...request }: { readonly visit: Visit } & Pick<Actor, 'requestId' | 'route'>,
): Promise<Entered | undefined> {
  const { database, clock, passwords } = context;
  const owner = await ownerOfLink(database.reads, token, clock.now());
  if (!owner) return undefined;
  const of = { id: owner.userId, email: owner.email };
  const password_hash = await passwords.hash(password, owner.email, await hashBeside(database.reads, of));
  const target = { ...owner, actor: { keyId: userKeyId(owner.email), ...request } };
  return changing(context, target, async ({ tx, user, now, audited }) => {
    // Checked again: while the password was hashed, the link may have been used or its owner disabled.
    if (!(await ownerOfLink(tx, token, now))) return undefined;
    await tx.updateTable('users').set({ password_hash }).where('id', '=', user.id).execute();
    await endLinks(tx, user.id);
    await audited('update-user', { password: { from: null, to: 'set' } });
    return enter(tx, user.id, { now, visit });
  });
}

/** The hash of another user with that email, so that signing in takes one scrypt for both. */
async function hashBeside(
  reads: Kysely<Tables>,
  { id, email }: { readonly id: string; readonly email: string },
): Promise<string | undefined> {
  const others = reads.selectFrom('users').select('password_hash').where('email', '=', email).where('id', '!=', id);
  const found = await others
    .where('password_hash', 'is not', null)
    .orderBy('inserted_at')
    .orderBy('id')
    .executeTakeFirst();
  return found?.password_hash ?? undefined;
}

/** Whether the password is the user's. For a user without a password, it takes as long. */
export async function checkPassword(
  { database, passwords }: PasswordContext,
  userId: string,
  password: string,
): Promise<boolean> {
  const user = await database.reads
    .selectFrom('users')
    .select('password_hash')
    .where('id', '=', userId)
    .executeTakeFirst();
  const hash = user?.password_hash ?? undefined;
  return (await passwords.matching(password, hash === undefined ? [] : [hash]))[0] ?? false;
}

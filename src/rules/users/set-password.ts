/** Sets a user's password, which ends the user's other sessions and links. */
import type { Kysely } from 'kysely';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Actor } from '../history/audit.ts';
import { endLinks, ownerOfLink } from './password-links.ts';
import type { Passwords } from './passwords.ts';
import { userKeyId, type Visit } from './sessions.ts';
import { enter, type Entered } from './sign-in.ts';
import { changing, type UserChange } from './users.ts';

export interface PasswordOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly passwords: Passwords;
}

/**
 * `change.keptSession` is the session of the request, which goes on.
 * @throws {ValidationError} about `password`.
 */
export async function setPassword(
  options: PasswordOptions,
  { id, email }: { readonly id: string; readonly email: string },
  password: string,
  change: UserChange,
): Promise<void> {
  const password_hash = await options.passwords.hash(
    password,
    email,
    await hashBeside(options.database.reads, { id, email }),
  );
  await changing(options, id, change, async ({ tx, audited }) => {
    await tx.updateTable('users').set({ password_hash }).where('id', '=', id).execute();
    await endLinks(tx, id);
    await audited('update-user', { password: { from: null, to: 'set' } });
  });
}

/**
 * Sets the password, uses up the link, and signs its owner in.
 * @returns undefined when the link does not work any more.
 * @throws {ValidationError} about `password`; the link still works then.
 */
export async function setPasswordByLink(
  options: PasswordOptions,
  { token, password }: { readonly token: string; readonly password: string },
  { visit, ...request }: { readonly visit: Visit } & Pick<Actor, 'requestId' | 'route'>,
): Promise<Entered | undefined> {
  const { database, clock, passwords } = options;
  const owner = await ownerOfLink(database.reads, token, clock.now());
  if (!owner) return undefined;
  const of = { id: owner.userId, email: owner.email };
  const password_hash = await passwords.hash(password, owner.email, await hashBeside(database.reads, of));
  const actor = { accountId: owner.accountId, keyId: userKeyId(owner.email), ...request };
  return changing(options, owner.userId, { actor }, async ({ tx, user, now, audited }) => {
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
  { database, passwords }: { readonly database: { readonly reads: Kysely<Tables> }; readonly passwords: Passwords },
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

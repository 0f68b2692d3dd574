/**
 * Signing in with email and password.
 *
 * Promises: an unknown user, one without a password, a disabled one and a wrong password get the same answer after the
 * same work. Attempts are limited by network and by user. Where a user signed in last has a limit of its own, so that
 * nobody elsewhere can keep that user out. Each sign-in makes a session with a new token.
 */
import type { Transaction } from 'kysely';
import type { Clock, Micros } from '../clock.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import type { Passwords } from './passwords.ts';
import { openSession, type Visit } from './sessions.ts';

/** Counts an attempt of somebody's. @throws {BerthError} `rate_limited`. */
interface AttemptLimit {
  take(who: string): void;
}

export interface SignInDependencies {
  readonly database: Database;
  readonly clock: Clock;
  readonly passwords: Passwords;
  /** The part of the address space that one client can easily have. */
  readonly networkOf: (address: string) => string;
  readonly limits: { readonly byAddress: AttemptLimit; readonly byUser: AttemptLimit };
}

/** A new session. */
export interface Entered {
  readonly token: string;
  /** The code of the second factor has to follow. */
  readonly awaitsCode: boolean;
}

/**
 * Undefined unless the password is right and its user may get in.
 * @throws {BerthError} `rate_limited`.
 */
export type SignIn = (
  given: { readonly email: string; readonly password: string },
  visit: Visit,
) => Promise<Entered | undefined>;

export function createSignIn({ database, clock, passwords, networkOf, limits }: SignInDependencies): SignIn {
  return async ({ email: given, password }, visit) => {
    const email = given.trim().toLowerCase();
    const network = networkOf(visit.address);
    limits.byAddress.take(visit.address);
    const user = await database.reads
      .selectFrom('users')
      .select(['id', 'password_hash', 'signed_in_from'])
      .where('email', '=', email)
      .executeTakeFirst();
    const isAtHome = typeof user?.signed_in_from === 'string' && networkOf(user.signed_in_from) === network;
    limits.byUser.take(isAtHome ? `${email} ${network}` : email);
    const isRight = await passwords.matches(password, user?.password_hash ?? null);
    if (!isRight || !user) return undefined;
    return database.db.transaction().execute(async (tx) => {
      // Asked again: it may have changed while the password was hashed.
      const live = await tx
        .selectFrom('users as u')
        .innerJoin('accounts as a', 'a.id', 'u.account_id')
        .select('u.id')
        .where('u.id', '=', user.id)
        .where('u.password_hash', '=', user.password_hash)
        .where('u.disabled_at', 'is', null)
        .where('a.deleted_at', 'is', null)
        .forNoKeyUpdate('u')
        .executeTakeFirst();
      return live && enter(tx, live.id, { now: clock.now(), visit });
    });
  };
}

/** Opens a session of somebody who has proved to be that user, but for the second factor if there is one. */
export async function enter(
  tx: Transaction<Tables>,
  userId: string,
  { now, visit }: { readonly now: Micros; readonly visit: Visit },
): Promise<Entered> {
  const { totp_secret } = await tx
    .updateTable('users')
    .set({ signed_in_at: now, signed_in_from: visit.address })
    .where('id', '=', userId)
    .returning('totp_secret')
    .executeTakeFirstOrThrow();
  const awaitsCode = totp_secret !== null;
  return { token: await openSession(tx, userId, { now, visit, awaitsCode }), awaitsCode };
}

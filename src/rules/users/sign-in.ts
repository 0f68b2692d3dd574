/**
 * Signs in with email and password.
 *
 * An email may belong to users of several accounts. If a password fits more than one of them, the page asks which
 * account to open, and offers only those.
 *
 * Promises: an unknown user, a user without a password, a disabled user and a wrong password get the same answer after the
 * same work, however many accounts the email belongs to. Attempts are limited by network, and by user and network, so that
 * nobody elsewhere can keep a user out. Each sign-in opens a session with a new token.
 */
import type { Store } from '../../foundation/context.ts';
import type { Kysely, Transaction } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Passwords } from './passwords.ts';
import { openUserSession, type Visit } from './sessions.ts';
import { foldedEmail } from './users.ts';
import { createHmac, timingSafeEqual } from 'node:crypto';

interface AttemptLimit {
  /** Counts an attempt. @throws {BerthError} `rate_limited`. */
  take(who: string): void;
}

export interface SignInOptions extends Store {
  readonly passwords: Passwords;
  readonly networkOf: NetworkOf;
  readonly limits: { readonly byAddress: AttemptLimit; readonly byUser: AttemptLimit };
}

/** A new session. */
export interface Entered {
  readonly token: string;
  /** Whether the code of the second factor has to follow. */
  readonly awaitsCode: boolean;
}

/** The password is right for several accounts. `choice` is the token to choose one with. */
export interface Choice {
  readonly choice: string;
}

export interface SignIn {
  /**
   * Undefined unless the password is right and its user may sign in.
   * @throws {BerthError} `rate_limited`.
   */
  (given: { readonly email: string; readonly password: string }, visit: Visit): Promise<Entered | Choice | undefined>;
  /** The accounts to choose from; undefined when the choice is too old, or one of the passwords has changed. */
  accounts(choice: string): Promise<readonly Choosable[] | undefined>;
  /** Undefined when the choice does not have that user, or the user may not sign in any more. */
  choose(choice: string, userId: string, visit: Visit): Promise<Entered | undefined>;
}

export function createSignIn({ database, clock, passwords, networkOf, limits }: SignInOptions): SignIn {
  const { reads } = database;

  function entering(user: Choosable, visit: Visit): Promise<Entered | undefined> {
    return database.db.transaction().execute(async (tx) => {
      // Checked again: the password may have changed while it was hashed, or while an account was chosen.
      const live = await candidates(tx, [user.id]).forNoKeyUpdate('u').executeTakeFirst();
      if (live?.password_hash !== user.password_hash) return undefined;
      const now = clock.now();
      await noteNetwork(tx, live.id, networkOf.network(visit.address), now);
      return enter(tx, live.id, { now, visit });
    });
  }

  const signIn = async (
    { email: given, password }: { readonly email: string; readonly password: string },
    visit: Visit,
  ): Promise<Entered | Choice | undefined> => {
    const email = foldedEmail(given);
    const network = networkOf.network(visit.address);
    const site = networkOf.site(visit.address);
    limits.byAddress.take(visit.address);
    limits.byUser.take(`${email} ${site}`);
    const users = email === undefined ? [] : await usersOfEmail(reads, email);
    const isKnown = await isKnownNetwork(reads, users, network, networkOf);
    const hashed = users.filter(hasPassword);
    const hashes = hashed.map(({ password_hash }) => password_hash);
    const areRight = await passwords.matching(password, hashes, { network, site, isKnown });
    const right = hashed.filter((_, index) => areRight[index]);
    if (right.length === 0) return undefined;
    const ids = right.map(({ id }) => id);
    const open = (await candidates(reads, ids).execute()).filter(hasPassword);
    const [first, ...others] = open.filter(({ password_hash }) => hashes.includes(password_hash));
    if (!first) return undefined;
    if (others.length > 0) return { choice: choiceToken([first, ...others], clock.now()) };
    return entering(first, visit);
  };

  const accounts = (choice: string): Promise<readonly Choosable[] | undefined> =>
    openChoice(choice, clock.now(), async (ids) => (await candidates(reads, ids).execute()).filter(hasPassword));

  return Object.assign(signIn, {
    accounts,
    async choose(choice: string, userId: string, visit: Visit) {
      const chosen = (await accounts(choice))?.find(({ id }) => id === userId);
      return chosen && entering(chosen, visit);
    },
  });
}

function usersOfEmail(reads: Kysely<Tables>, email: string) {
  return reads
    .selectFrom('users')
    .select(['id', 'password_hash', 'signed_in_from'])
    .where('email', '=', email)
    .execute();
}

/** The users with these ids who may sign in. */
function candidates(db: Kysely<Tables>, ids: readonly string[]) {
  return db
    .selectFrom('users as u')
    .innerJoin('accounts as a', 'a.id', 'u.account_id')
    .select(['u.id', 'u.email', 'u.password_hash', 'a.name as accountName'])
    .where('u.id', 'in', ids)
    .where('u.disabled_at', 'is', null)
    .where('a.deleted_at', 'is', null)
    .orderBy('a.name')
    .orderBy('u.id');
}

function hasPassword<T extends { readonly password_hash: string | null }>(
  user: T,
): user is T & { readonly password_hash: string } {
  return user.password_hash !== null;
}

/** Opens a session for somebody who has proved to be that user. If the user has a second factor, the session awaits its code. */
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
  return { token: await openUserSession(tx, userId, { now, visit, awaitsCode }), awaitsCode };
}

/** The parts of the address space that one client may own. */
interface NetworkOf {
  network(address: string): string;
  /** A larger part, which some clients own. */
  site(address: string): string;
}

/** How many of the networks from which a user has signed in are remembered: the last few. */
const MOST_NETWORKS = 10;

/** Whether one of these users has signed in from that network. */
async function isKnownNetwork(
  reads: Kysely<Tables>,
  users: readonly { readonly id: string; readonly signed_in_from: string | null }[],
  network: string,
  networkOf: NetworkOf,
): Promise<boolean> {
  if (users.length === 0) return false;
  // For users who have not signed in since networks are stored.
  if (users.some(({ signed_in_from: from }) => from !== null && networkOf.network(from) === network)) return true;
  const ids = users.map(({ id }) => id);
  const known = reads.selectFrom('user_networks').select('user_id').where('user_id', 'in', ids);
  return (await known.where('network', '=', network).limit(1).executeTakeFirst()) !== undefined;
}

async function noteNetwork(tx: Transaction<Tables>, userId: string, network: string, now: Micros): Promise<void> {
  await tx
    .insertInto('user_networks')
    .values({ user_id: userId, network, seen_at: now })
    .onConflict((conflict) => conflict.columns(['user_id', 'network']).doUpdateSet({ seen_at: now }))
    .execute();
  const own = tx.selectFrom('user_networks').select('network').where('user_id', '=', userId);
  const kept = await own.orderBy('seen_at', 'desc').limit(MOST_NETWORKS).execute();
  if (kept.length < MOST_NETWORKS) return;
  await tx
    .deleteFrom('user_networks')
    .where('user_id', '=', userId)
    .where(
      'network',
      'not in',
      kept.map((each) => each.network),
    )
    .execute();
}

import * as v from 'valibot';

const LIFE: Micros = 600 * SECOND;
const MOST_USERS = 100;

/** A user whose password was right. */
interface Choosable {
  readonly id: string;
  readonly email: string;
  readonly accountName: string;
  readonly password_hash: string;
}

const Carried = v.object({
  users: v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(MOST_USERS)),
  until: v.number(),
});

/**
 * The choice between accounts, for a person whose password fits several of them: a token that the browser keeps for ten minutes.
 *
 * Promise: only this berth can make a token. It is signed with the password hashes of its users, so every node that shares
 * the database can open it, and it ends when one of the passwords changes.
 */
function choiceToken(users: readonly Choosable[], now: Micros): string {
  const offered = users.slice(0, MOST_USERS);
  const text = JSON.stringify({ users: offered.map(({ id }) => id), until: now + LIFE });
  return `${Buffer.from(text).toString('base64url')}.${signature(text, offered).toString('base64url')}`;
}

/** @param find returns the users with these ids who may sign in. */
async function openChoice(
  token: string,
  now: Micros,
  find: (ids: readonly string[]) => Promise<readonly Choosable[]>,
): Promise<readonly Choosable[] | undefined> {
  const [body = '', given = ''] = token.split('.').map((part) => Buffer.from(part, 'base64url'));
  const carried = v.safeParse(Carried, parsed(String(body)));
  if (!carried.success || carried.output.until < now || carried.output.until > now + LIFE) return undefined;
  const users = await find(carried.output.users);
  const expected = signature(String(body), users);
  const isOurs = given.length === expected.length && timingSafeEqual(Buffer.from(given), expected);
  return isOurs && users.length === carried.output.users.length ? users : undefined;
}

function signature(text: string, users: readonly Choosable[]): Buffer {
  const key = users.map(({ id, password_hash }) => `${id} ${password_hash}`).toSorted();
  return createHmac('sha256', JSON.stringify(key)).update(text).digest();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The dashboard's sessions. A session is a random token in its owner's cookie; the database has only its hash.
 *
 * Promise: each request asks the database, so a session that has ended, a changed role, a disabled user or a deleted account
 * counts from the next request on.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import { type Clock, DAY, type Micros, SECOND } from '../base/clock.ts';
import type { Principal } from '../accounts/authenticate.ts';
import { UNLIMITED } from '../accounts/scope.ts';
import { compiled } from '../db/compiled.ts';
import type { Database } from '../db/open.ts';
import type { Tables } from '../db/schema.ts';
import type { UserSessionsTable } from '../db/schema-users.ts';

/** Without a request for so long, a session has ended. */
const IDLE: Micros = DAY / 2;
/** However often it is used. */
const LONGEST: Micros = 30 * DAY;
/** After the password, the code has to follow within this. */
const CODE_WITHIN: Micros = 600 * SECOND;
/** How often the time of the last request is written, at most. */
const NOTED_EVERY: Micros = DAY / 24 / 12;

/** Where a request comes from. */
export interface Visit {
  readonly address: string;
  /** Its `User-Agent`. */
  readonly agent: string;
}

/** Somebody whose request carries a valid session. `principal` is what the rules take: its key id names the user. */
export interface SignedIn {
  readonly principal: Principal;
  readonly userId: string;
  readonly email: string;
  readonly accountName: string;
  readonly sessionId: string;
  /** When the password, the code or the company's login let this session in. */
  readonly signedInAt: Micros;
  /** The password was right, and a code has to follow before anything else. */
  readonly awaitsCode: boolean;
  /** The account asks for a second factor, and this user has none yet. */
  readonly needsSecondFactor: boolean;
}

const byHash = compiled<{ hash: string; seen: Micros; since: Micros }>()((db, p) =>
  db
    .selectFrom('user_sessions as s')
    .innerJoin('users as u', 'u.id', 's.user_id')
    .innerJoin('accounts as a', 'a.id', 'u.account_id')
    .select([
      's.id as sessionId',
      's.awaits_code',
      's.inserted_at',
      's.seen_at',
      'u.id as userId',
      'u.email',
      'u.role',
      'u.totp_secret',
    ])
    .select(['a.id as accountId', 'a.name as accountName', 'a.plan', 'a.second_factor_required_at'])
    .where('s.hash', '=', p('hash'))
    .where('s.seen_at', '>', p('seen'))
    .where('s.inserted_at', '>', p('since'))
    .where('u.disabled_at', 'is', null)
    .where('a.deleted_at', 'is', null),
);

/** The session of that token, if there is one. With a `visit`, notes when and from where it was used. */
export async function sessionOf(
  { database, clock }: { database: Database; clock: Clock },
  token: string,
  visit?: Visit,
): Promise<SignedIn | undefined> {
  const now = clock.now();
  const found = await byHash.first(database.reads, { hash: hashToken(token), ...liveSince(now) });
  if (!found || (found.awaits_code === 1 && now - found.inserted_at > CODE_WITHIN)) return undefined;
  const { sessionId, userId, email, role, plan, accountId, accountName } = found;
  // Also when the clock was set back: a time to come would keep the session alive until then.
  if (visit && Math.abs(now - found.seen_at) > NOTED_EVERY) {
    const seen = { seen_at: now, ...shortened(visit) };
    await database.db.updateTable('user_sessions').set(seen).where('id', '=', sessionId).execute();
  }
  return {
    principal: {
      accountId,
      keyId: userKeyId(email),
      role,
      plan,
      scope: UNLIMITED,
      credential: { kind: 'session', id: sessionId, userId, role },
    },
    userId,
    email,
    accountName,
    sessionId,
    signedInAt: found.inserted_at,
    awaitsCode: found.awaits_code === 1,
    needsSecondFactor: found.second_factor_required_at !== null && found.totp_secret === null,
  };
}

/** A session is live while it was seen and was made after these. */
export function liveSince(now: Micros): { seen: Micros; since: Micros } {
  return { seen: now - IDLE, since: now - LONGEST };
}

/** A new session. @returns its token, which nobody knows later. */
export async function openUserSession(
  tx: Transaction<Tables>,
  userId: string,
  { now, visit, awaitsCode }: { now: Micros; visit: Visit; awaitsCode: boolean },
): Promise<string> {
  const token = newToken();
  const row: UserSessionsTable = {
    id: randomUUID(),
    hash: hashToken(token),
    user_id: userId,
    awaits_code: awaitsCode ? 1 : 0,
    ...shortened(visit),
    inserted_at: now,
    seen_at: now,
  };
  await tx.insertInto('user_sessions').values(row).execute();
  return token;
}

/** Ends one session of a user. @returns whether there was one. */
export async function endUserSession(db: Kysely<Tables>, userId: string, sessionId: string): Promise<boolean> {
  const one = db.deleteFrom('user_sessions').where('id', '=', sessionId).where('user_id', '=', userId);
  return (await one.executeTakeFirst()).numDeletedRows > 0n;
}

/** Ends all of them: in the transaction that changes the password, the role or the state. `but` one, if it is given. */
export async function endUserSessions(tx: Kysely<Tables>, userId: string, but = ''): Promise<void> {
  await tx.deleteFrom('user_sessions').where('user_id', '=', userId).where('id', '!=', but).execute();
}

/** A user's live sessions, the one used last first. */
export function sessionsOf(reads: Kysely<Tables>, userId: string, now: Micros) {
  const { seen, since } = liveSince(now);
  return reads
    .selectFrom('user_sessions')
    .select(['id', 'address', 'agent', 'inserted_at', 'seen_at'])
    .where('user_id', '=', userId)
    .where('awaits_code', '=', 0)
    .where('seen_at', '>', seen)
    .where('inserted_at', '>', since)
    .orderBy('seen_at', 'desc')
    .execute();
}

/** Stands for the key in the audit and the log. */
export function userKeyId(email: string): string {
  return `user:${email}`;
}

/** 256 bits. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Tokens are random, so a plain SHA-256 cannot be guessed back. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function shortened({ address, agent }: Visit): Visit {
  return { address, agent: agent.slice(0, 200) };
}

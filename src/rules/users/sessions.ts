/**
 * The dashboard's sessions. A session is a random token in its owner's cookie; the database has only its hash.
 *
 * Promise: each request reads the database, so the end of a session, a changed role, a disabled user and a deleted account
 * take effect with the next request.
 */
import type { Store } from '../../foundation/context.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import { hashToken } from '../../foundation/base/hashes.ts';
import { DAY, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Principal } from '../api-keys/authenticate.ts';
import { scopeOf } from '../accounts/actor.ts';
import type { ClockLead } from '../../foundation/db/clock-lead.ts';
import { removeInBatches } from '../history/removal.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { Tables, UserSessionsTable } from '../../foundation/db/schema.ts';

/** A session ends after this time without a request. */
const IDLE: Micros = DAY / 2;
/** A session ends after this time, however often it is used. */
const LONGEST: Micros = 30 * DAY;
/** The code has to follow the password within this time. */
const CODE_WITHIN: Micros = 600 * SECOND;
/** The time of the last request is written at most this often. */
const NOTED_EVERY: Micros = 300 * SECOND;

/** Where a request comes from. */
export interface Visit {
  readonly address: string;
  /** The request's `User-Agent`. */
  readonly agent: string;
}

/** A user whose request has a valid session. `principal` is for the rules; its key id names the user. */
export interface SignedIn {
  readonly principal: Principal;
  readonly userId: string;
  readonly email: string;
  readonly accountName: string;
  readonly sessionId: string;
  /** When the session was opened: by the password, the code or the company's login. */
  readonly signedInAt: Micros;
  /** The password was right, and a code has to follow before anything else. */
  readonly awaitsCode: boolean;
  /** The account requires a second factor, and this user has none yet. */
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
      'u.read_only',
      'u.directories',
    ])
    .select(['a.id as accountId', 'a.name as accountName', 'a.plan', 'a.second_factor_required_at'])
    .where('s.hash', '=', p('hash'))
    .where('s.seen_at', '>', p('seen'))
    .where('s.inserted_at', '>', p('since'))
    .where('u.disabled_at', 'is', null)
    .where('a.deleted_at', 'is', null),
);

/** The live session with that token; undefined when there is none. With a `visit`, records when and from where it was used. */
export async function sessionOf(
  { database, clock }: Store,
  token: string,
  visit?: Visit,
): Promise<SignedIn | undefined> {
  const now = clock.now();
  const found = await byHash.first(database.reads, { hash: hashToken(token), ...liveSince(now) });
  if (!found || (found.awaits_code === 1 && now - found.inserted_at > CODE_WITHIN)) return undefined;
  const { sessionId, userId, email, role, plan, accountId, accountName } = found;
  // Also written when the clock was set back: a time in the future would keep the session alive until then.
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
      scope: scopeOf(found, 'session'),
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

/** A session is live if it was last used after `seen`, and opened after `since`. */
function liveSince(now: Micros): { seen: Micros; since: Micros } {
  return { seen: now - IDLE, since: now - LONGEST };
}

/** Opens a session. @returns its token. Later only the token's hash is known. */
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

/** Ends all sessions of a user, in the transaction that changes the user. @param except the id of a session that stays. */
export async function endUserSessions(tx: Kysely<Tables>, userId: string, except = ''): Promise<void> {
  await tx.deleteFrom('user_sessions').where('user_id', '=', userId).where('id', '!=', except).execute();
}

/** A user's live sessions, the last used one first. */
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

/** Names a user where the audit and the log have the id of a key. */
export function userKeyId(email: string): string {
  return `user:${email}`;
}

/** 256 bits. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

function shortened({ address, agent }: Visit): Visit {
  return { address, agent: agent.slice(0, 200) };
}

/** How long a link's row is kept after it has expired, since the clock may be set back meanwhile. */
const LINK_KEPT_FOR: Micros = DAY;

/** Removes links and sessions that have expired. A clock that jumps ahead does not count. */
export async function removeExpired(
  { database, clockLead }: { readonly database: Database; readonly clockLead: ClockLead },
  signal: AbortSignal,
): Promise<void> {
  const { now } = await clockLead();
  const { db } = database;
  const links = db.selectFrom('user_links').select('hash').where('expires_at', '<=', now);
  await removeInBatches(db, { table: 'user_links', key: 'hash', found: links }, signal);
  const ofDirectories = db
    .selectFrom('links')
    .select('id')
    .where('expires_at', '<', now - LINK_KEPT_FOR);
  await removeInBatches(db, { table: 'links', key: 'id', found: ofDirectories }, signal);
  const { seen, since } = liveSince(now);
  const sessions = db
    .selectFrom('user_sessions')
    .select('id')
    .where((is) => is.or([is('seen_at', '<=', seen), is('inserted_at', '<=', since)]));
  await removeInBatches(db, { table: 'user_sessions', key: 'id', found: sessions }, signal);
}

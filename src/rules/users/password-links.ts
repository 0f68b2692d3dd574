/**
 * Links with which users set a password. Each works once and for a day, and replaces the user's earlier links. The database
 * has only their hashes.
 */
import type { Kysely, Transaction } from 'kysely';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import { type Config, originOf } from '../../foundation/base/config.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { hashToken } from '../../foundation/base/hashes.ts';
import { newToken } from './sessions.ts';

const LIFE: Micros = DAY;

/** The user who may use a link. */
export interface LinkOwner {
  readonly userId: string;
  readonly accountId: string;
  readonly email: string;
  readonly accountName: string;
  /** The email of the user who made the link; undefined if it was an operator, or if nothing is known about it any more. */
  readonly by: string | undefined;
}

/** @returns the link's token. Later only its hash is known. */
export async function newLink(tx: Transaction<Tables>, userId: string, now: Micros): Promise<string> {
  const token = newToken();
  await endLinks(tx, userId);
  await tx
    .insertInto('user_links')
    .values({ hash: hashToken(token), user_id: userId, expires_at: now + LIFE })
    .execute();
  return token;
}

export async function endLinks(tx: Kysely<Tables>, userId: string): Promise<void> {
  await tx.deleteFrom('user_links').where('user_id', '=', userId).execute();
}

/** Undefined when the link was used or replaced, is too old, or its owner may not sign in. */
export async function ownerOfLink(db: Kysely<Tables>, token: string, now: Micros): Promise<LinkOwner | undefined> {
  const owner = await db
    .selectFrom('user_links as l')
    .innerJoin('users as u', 'u.id', 'l.user_id')
    .innerJoin('accounts as a', 'a.id', 'u.account_id')
    .select(['u.id as userId', 'a.id as accountId', 'u.email', 'a.name as accountName', 'l.expires_at'])
    .where('l.hash', '=', hashToken(token))
    .where('l.expires_at', '>', now)
    .where('u.disabled_at', 'is', null)
    .where('a.deleted_at', 'is', null)
    .executeTakeFirst();
  if (!owner) return undefined;
  const { expires_at, ...about } = owner;
  const made = await db
    .selectFrom('audit')
    .select('key_id')
    .where('account_id', '=', owner.accountId)
    // The link is made at the moment of the change.
    .where('at', '=', expires_at - LIFE)
    .where('action', 'in', ['create-user', 'update-user'])
    .where('key_id', 'like', 'user:%')
    .executeTakeFirst();
  return { ...about, by: made?.key_id.replace(/^user:/, '') };
}

export function linkPath(token: string): string {
  return `/dashboard/link/${token}`;
}

/** The dashboard's URL for browsers. Without the setting, a proxy in front of it is assumed to have the usual port. */
export function dashboardUrl({ api, dashboard, tls }: Pick<Config, 'api' | 'dashboard' | 'tls'>): string {
  if (dashboard.url !== undefined) return dashboard.url;
  return originOf(tls, (dashboard.own ?? api).port);
}

/**
 * The choice between accounts, for a person whose password fits several of them: a token that the browser keeps for ten
 * minutes.
 *
 * Promise: only this berth can make a token. It is signed with the password hashes of its users, so every node that shares
 * the database can open it, and it ends when one of the passwords changes.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import * as v from 'valibot';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';

const LIFE: Micros = 600 * SECOND;
const MOST_USERS = 100;

/** A user whose password was right. */
export interface Choosable {
  readonly id: string;
  readonly email: string;
  readonly accountName: string;
  readonly password_hash: string;
}

const Carried = v.object({
  users: v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(MOST_USERS)),
  until: v.number(),
});

export function choiceToken(users: readonly Choosable[], now: Micros): string {
  const offered = users.slice(0, MOST_USERS);
  const text = JSON.stringify({ users: offered.map(({ id }) => id), until: now + LIFE });
  return `${Buffer.from(text).toString('base64url')}.${signature(text, offered).toString('base64url')}`;
}

/** @param find returns the users with these ids who may sign in. */
export async function openChoice(
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

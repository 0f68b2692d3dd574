/** Users of the dashboard, made by its rules. */
import { randomUUID } from 'node:crypto';
import { TOTP } from 'otpauth';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { Role } from '../../src/foundation/db/schema.ts';
import type { Actor, AccountTarget } from '../../src/rules/accounts/actor.ts';
import { createUser } from '../../src/rules/users/users.ts';
import { type Visitor, visitorOf } from './dashboard.ts';

export const PASSWORD = 'correct horse battery staple';

/** A change by the command line. */
export function operator(accountId: string): AccountTarget & { readonly actor: Actor } {
  return { accountId, actor: { keyId: 'operator:root', requestId: 'test', route: 'test' } };
}

/** A user who has a link, and no password yet. */
export async function invited(
  { config }: { readonly config: Pick<Config, 'database'> },
  accountId: string,
  role: Role = 'admin',
): Promise<{ id: string; email: string; token: string }> {
  const email = `${randomUUID().slice(0, 8)}@example.com`;
  return onDatabase({ config }, (database) =>
    createUser({ database, clock: systemClock() }, operator(accountId), { email, role }),
  );
}

/** What `use` makes of the database of a berth, which may be running. */
export async function onDatabase<T>(
  { config }: { readonly config: Pick<Config, 'database'> },
  use: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(config.database);
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

/** A visitor who is signed in as an account's user with a password. */
export async function entered(
  { config, port }: { readonly config: Config; readonly port: number },
  accountId: string,
  role: Role = 'admin',
): Promise<Visitor & { readonly id: string }> {
  const { id, email, token } = await invited({ config }, accountId, role);
  const visitor = visitorOf({ config, port });
  await visitor.post(`/dashboard/link/${token}`, { password: PASSWORD, repeated: PASSWORD });
  return { ...visitor, id, email };
}

/** Sets up a second factor on its page. @returns its key and the recovery codes. */
export async function enrolled(visitor: Visitor, now: number): Promise<{ secret: string; recovery: string[] }> {
  const page = await visitor.get(FACTOR);
  const [, secret = ''] = /<code>([A-Z2-7]{32})<\/code>/.exec(page.text) ?? [];
  const [, kept = ''] = /name="secret" value="([^"]*)"/.exec(page.text) ?? [];
  const done = await visitor.submit(FACTOR, { secret: kept, code: codeAt(secret, now) });
  const [, codes = ''] = /data-secret="recovery-codes">([^<]*)</.exec(done.text) ?? [];
  return { secret, recovery: codes.split('\n') };
}

export const FACTOR = '/dashboard/profile/second-factor';

/** What an app shows then, in µs. */
export function codeAt(secret: string, now: number): string {
  return new TOTP({ secret }).generate({ timestamp: now / 1000 });
}

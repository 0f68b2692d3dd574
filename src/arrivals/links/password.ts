/**
 * Links that show a directory's password once. The database has the password encrypted with a key that is derived from the link's
 * token and the password's hash. So the database alone does not reveal it, and a link shows no password but the present one.
 */
import { hkdfSync, randomUUID } from 'node:crypto';
import { DAY, type Micros } from '../../foundation/base/clock.ts';
import { decrypt, encrypt } from '../../foundation/base/encrypt.ts';
import { hashToken } from '../../foundation/base/hashes.ts';
import type { DirectoryRow, LinksTable } from '../../foundation/db/schema.ts';
import type { RuleContext, Target } from '../../rules/directories/target.ts';
import { renewPassword } from '../../rules/directories/update.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { linkTarget, newToken } from './links.ts';

const LIFE: Micros = 7 * DAY;

/**
 * Replaces the password by one that nobody sees before it is shown by the link.
 * @returns the path of the link's URL, with the token.
 * @throws like `renewPassword`.
 */
export async function renewPasswordByLink(context: RuleContext, target: Target): Promise<string> {
  const token = newToken();
  await renewPassword(context, target, async (tx, { directory, password }) => {
    const now = context.clock.now();
    await tx
      .insertInto('links')
      .values({
        id: randomUUID(),
        directory_id: directory.id,
        hash: hashToken(token),
        kind: 'password',
        path: Buffer.alloc(0),
        is_folder: 0,
        once: 1,
        password: encrypt(keyOf(token, directory), password),
        expires_at: now + LIFE,
        inserted_at: now,
        created_by: target.actor?.keyId ?? null,
      })
      .execute();
    // A link to a password has no path. An erased row has no details at all.
    const details = { file: { from: '', to: null } };
    await insertAudit(tx, target, { action: 'create-link', at: now, directory, details });
  });
  return linkTarget(token, '');
}

/** Undefined when it is not the directory's password any more. */
export function passwordOf(
  token: string,
  { password }: Pick<LinksTable, 'password'>,
  directory: DirectoryRow,
): string | undefined {
  try {
    return password === null ? undefined : decrypt(keyOf(token, directory), password);
  } catch {
    return undefined;
  }
}

function keyOf(token: string, { password_hash }: DirectoryRow): Buffer {
  return Buffer.from(hkdfSync('sha256', token, password_hash, 'berth password link', 32));
}

/**
 * The public keys of a directory's user. Their rows are the truth; `directories.public_key` holds their lines for the host,
 * newest first, and `public_key_fingerprint` is that of the newest. One transaction keeps the three consistent.
 *
 * Adding a key leaves the others alone, so that a customer can replace a key without a gap: until the old one is removed,
 * both work.
 */
import type { Kysely, Transaction } from 'kysely';
import * as v from 'valibot';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DirectoryRow, PublicKeysTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';
import type { UsedKeys } from '../api-keys/last-used.ts';
import { changeDirectory, type Changes, type DirectoryChange, revokeAccess } from './change.ts';
import { checked, orBlank } from '../../foundation/base/validation.ts';
import { type Fields, publicKey } from './fields.ts';
import { isPendingApply } from './pending-apply.ts';
import type { PublicKey } from './public-key.ts';
import type { RuleContext, Target } from './target.ts';

/** A limit, because sshd's helper prints all keys at each login with a key. */
const MOST_KEYS = 100;

export const NewPublicKey = v.pipe(
  v.object(
    {
      public_key: publicKey('The line of a `.pub` file with a strong key. The text after the key becomes its comment.'),
    },
    orBlank,
  ),
  v.title('AddPublicKey'),
);

export type ShownKey = Omit<PublicKeysTable, 'directory_id' | 'line'>;

export interface Added {
  readonly directory: DirectoryRow;
  readonly key: ShownKey;
}

/** Newest first. */
export function publicKeysOf(reads: Kysely<Tables>, directoryId: string): Promise<ShownKey[]> {
  return reads
    .selectFrom('public_keys')
    .select(['fingerprint', 'type', 'comment', 'inserted_at', 'last_used_at'])
    .where('directory_id', '=', directoryId)
    .orderBy('inserted_at', 'desc')
    .execute();
}

/**
 * When the host failed after a key was added, the same request can be repeated: until the host has followed, that key counts
 * as added by the repetition.
 * @throws {ValidationError} when the key is invalid or weak, is there already, or is one too many;
 * {BerthError} `directory_not_found`, `storage_full`.
 */
export async function addPublicKey(context: RuleContext, target: Target<Added>, fields: Fields): Promise<Added> {
  const { id, actor } = target;
  const { type, comment, fingerprint, line } = checked(NewPublicKey, fields).public_key;
  let key: ShownKey = { fingerprint, type, comment, inserted_at: 0, last_used_at: null };
  const change: DirectoryChange = async (tx, now, before) => {
    const there = await publicKeysOf(tx, id);
    const same = there.find((other) => other.fingerprint === fingerprint);
    if (same) {
      if (context.host.isApplied(before) || !(await isPendingApply(tx, id))) throw wrongField('public_key', 'taken');
      key = same;
      return columnsOf(tx, id);
    }
    if (there.length >= MOST_KEYS) throw wrongField('public_key', 'too_many', MOST_KEYS, 'item');
    // The clock may have been set back since the newest key was added.
    key = { ...key, inserted_at: Math.max(now, (there[0]?.inserted_at ?? 0) + 1) };
    await tx
      .insertInto('public_keys')
      .values({ ...key, directory_id: id, line })
      .execute();
    return columnsOf(tx, id);
  };
  const directory = await changeDirectory(context, target, change, (tx, changed) =>
    actor?.response?.keep(tx, { directory: changed, key }),
  );
  return { directory, key };
}

/**
 * Removes one key. The mode stays the same, even when this was the last key.
 * @throws {BerthError} `directory_not_found`, `public_key_not_found`, `storage_full`.
 */
export async function removePublicKey(
  context: RuleContext,
  target: Target,
  fingerprint: string,
): Promise<DirectoryRow> {
  const { id } = target;
  const there = await publicKeysOf(context.database.reads, id);
  if (!there.some((key) => key.fingerprint === fingerprint))
    throw new BerthError('public_key_not_found', 'Public key not found');
  // The change below may run twice, so a missing key is no error there.
  return revokeAccess(context, target, async (tx) => {
    await tx.deleteFrom('public_keys').where('directory_id', '=', id).where('fingerprint', '=', fingerprint).execute();
    return columnsOf(tx, id);
  });
}

/** Makes `key` the only key, or removes all. If `key` is there already, its row stays as it is. */
export async function replacePublicKeys(
  tx: Transaction<Tables>,
  directoryId: string,
  key: PublicKey | undefined,
  now: Micros,
): Promise<Changes> {
  const there = await rowsOf(tx, directoryId);
  for (const { fingerprint } of there.filter((row) => row.fingerprint !== key?.fingerprint))
    await tx
      .deleteFrom('public_keys')
      .where('directory_id', '=', directoryId)
      .where('fingerprint', '=', fingerprint)
      .execute();
  if (key && !there.some(({ fingerprint }) => fingerprint === key.fingerprint)) {
    const { fingerprint, type, comment, line } = key;
    await tx
      .insertInto('public_keys')
      .values({ directory_id: directoryId, fingerprint, type, comment, line, inserted_at: now })
      .execute();
  }
  return columnsOf(tx, directoryId);
}

/** Writes when keys were last used. A key is named by directory id and fingerprint, with a blank in between. */
export const USED_PUBLIC_KEYS: UsedKeys = {
  name: 'public-keys-used',
  async write(tx, key, at) {
    const [directoryId = '', fingerprint = ''] = key.split(' ');
    await tx
      .updateTable('public_keys')
      .set({ last_used_at: at })
      .where('directory_id', '=', directoryId)
      .where('fingerprint', '=', fingerprint)
      .where((eb) => eb.or([eb('last_used_at', 'is', null), eb('last_used_at', '<', at)]))
      .execute();
  },
};

/** The columns of the directory's row that depend on its keys. */
async function columnsOf(tx: Transaction<Tables>, directoryId: string): Promise<Changes> {
  const rows = await rowsOf(tx, directoryId);
  return {
    public_key: rows.length > 0 ? rows.map(({ line }) => line).join('\n') : null,
    public_key_fingerprint: rows[0]?.fingerprint ?? null,
  };
}

function rowsOf(tx: Transaction<Tables>, directoryId: string) {
  return tx
    .selectFrom('public_keys')
    .select(['fingerprint', 'line', 'inserted_at'])
    .where('directory_id', '=', directoryId)
    .orderBy('inserted_at', 'desc')
    .execute();
}

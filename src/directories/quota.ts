/** How much a directory may hold. The kernel enforces it, for all that its SFTP user owns; the row says what it has to be. */
import * as v from 'valibot';
import { BerthError } from '../errors.ts';
import { checked, orBlank, wholeNumber } from '../validation.ts';
import { type ChangeDependencies, changeDirectory, type Target } from './change.ts';
import type { Fields } from './fields.ts';

/** More than any file system of today holds: 1 PiB. */
const MOST = 2 ** 50;

const Limit = v.object({ max_bytes: v.nullable(wholeNumber(0, MOST)) }, orBlank);

export const QuotaFields = v.object({ quota: Limit }, orBlank);

export interface Quota {
  readonly max_bytes: number | null;
  /** Of the recorded files, as `storage_bytes` has it. */
  readonly used_bytes: number;
}

/**
 * In force when it resolves. `null` takes the limit away.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `quota_unavailable`, `storage_full`.
 */
export async function setQuota(deps: ChangeDependencies, target: Target, fields: Fields): Promise<Quota> {
  checked(v.object({ quota: v.looseObject({}, orBlank) }, orBlank), fields);
  const { max_bytes } = checked(Limit, fields['quota'] as Fields);
  const obstacle = max_bytes === null ? undefined : deps.host.quotaObstacle();
  if (obstacle !== undefined) throw new BerthError('quota_unavailable', `No quota can be set: ${obstacle}`);
  const directory = await changeDirectory(deps, target, () => ({ quota_bytes: max_bytes }));
  return { max_bytes, used_bytes: directory.storage_bytes };
}

/** @throws {BerthError} `directory_not_found`. */
export async function quotaOf({ database }: ChangeDependencies, { accountId, id }: Target): Promise<Quota> {
  const directory = await database.reads
    .selectFrom('directories')
    .select(['quota_bytes as max_bytes', 'storage_bytes as used_bytes'])
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) throw new BerthError('directory_not_found', 'Directory not found');
  return directory;
}

/** How much a directory may hold. The kernel enforces it, for all that its SFTP user owns; the row says what it has to be. */
import * as v from 'valibot';
import { BerthError } from '../errors.ts';
import { checked, orBlank, wholeNumber } from '../validation.ts';
import { type ChangeDependencies, changeDirectory } from './change.ts';
import type { Fields } from './fields.ts';
import { liveDirectory, type Target } from './target.ts';

/** More than any file system of today holds: 1 PiB. */
const MOST = 2 ** 50;

export const QuotaFields = v.object({ max_bytes: v.nullable(wholeNumber(0, MOST)) }, orBlank);

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
  const { max_bytes } = checked(QuotaFields, fields);
  if (max_bytes !== null) {
    const obstacle = await deps.host.quotaObstacle(await liveDirectory(deps.database.reads, target));
    if (obstacle !== undefined) throw new BerthError('quota_unavailable', `No quota can be set: ${obstacle}`);
  }
  const directory = await changeDirectory(deps, target, () => ({ quota_bytes: max_bytes }));
  return { max_bytes, used_bytes: directory.storage_bytes };
}

/** @throws {BerthError} `directory_not_found`. */
export async function quotaOf({ database }: ChangeDependencies, target: Target): Promise<Quota> {
  const { quota_bytes: max_bytes, storage_bytes: used_bytes } = await liveDirectory(database.reads, target);
  return { max_bytes, used_bytes };
}

/** How many bytes a directory may hold. The row has the limit; the kernel enforces it for all files of the SFTP user. */
import * as v from 'valibot';
import { BerthError } from '../../foundation/base/errors.ts';
import { checked, orBlank, wholeNumber } from '../../foundation/base/validation.ts';
import { changeDirectory } from './change.ts';
import type { Fields } from './fields.ts';
import { liveDirectory, type RuleContext, type Target } from './target.ts';

/** 1 PiB: more than any file system of today holds. */
const MOST_BYTES = 2 ** 50;

export const QuotaFields = v.object({ max_bytes: v.nullable(wholeNumber(0, MOST_BYTES)) }, orBlank);

export interface Quota {
  readonly max_bytes: number | null;
  /** The size of the recorded files, as in `storage_bytes`. */
  readonly used_bytes: number;
}

/**
 * Sets the limit, in force when this resolves. `null` removes it.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `quota_unavailable`, `storage_full`.
 */
export async function setQuota(context: RuleContext, target: Target, fields: Fields): Promise<Quota> {
  const { max_bytes } = checked(QuotaFields, fields);
  if (max_bytes !== null) {
    const obstacle = await context.host.quotaObstacle(await liveDirectory(context.database.reads, target));
    if (obstacle !== undefined) throw new BerthError('quota_unavailable', `No quota can be set: ${obstacle}`);
  }
  const directory = await changeDirectory(context, target, () => ({ quota_bytes: max_bytes }));
  return { max_bytes, used_bytes: directory.storage_bytes };
}

/** @throws {BerthError} `directory_not_found`. */
export async function quotaOf({ database }: RuleContext, target: Target): Promise<Quota> {
  const { quota_bytes: max_bytes, storage_bytes: used_bytes } = await liveDirectory(database.reads, target);
  return { max_bytes, used_bytes };
}

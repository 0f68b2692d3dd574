/** A full disk, whoever meets it first: the file system or the database. */
import { BerthError, errorCode } from '../errors.ts';

/** ENOSPC also stands for no inodes left; EDQUOT for a quota of the file system. */
const CODES = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);

/**
 * What `work` returns.
 * @throws {BerthError} `storage_full` when it failed for want of space; any other error of `work` as it is.
 */
export async function refusingWhenFull<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!CODES.has(errorCode(error) ?? '')) throw error;
    throw new BerthError('storage_full', 'Not enough storage space', { cause: error });
  }
}

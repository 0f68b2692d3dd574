/** A full disk, found by the file system or by the database. */
import { constants } from 'node:os';
import { BerthError, errorCode } from '../base/errors.ts';
import { type HostedDirectory, hostedById } from './host.ts';
import type { Applying } from './unapplied.ts';

/** ENOSPC also stands for no inodes left; EDQUOT for a quota of the file system. */
const CODES = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);

/** EDQUOT has no name in libuv, so Node's code is "Unknown system error -122". */
const OVER_QUOTA = -constants.errno.EDQUOT;

export function isFull(error: unknown): boolean {
  return (
    CODES.has(errorCode(error) ?? '') || (error instanceof Error && 'errno' in error && error.errno === OVER_QUOTA)
  );
}

/**
 * What `work` returns.
 * @throws {BerthError} `storage_full` when it failed for want of space; any other error of `work` as it is.
 */
export async function refusingWhenFull<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isFull(error)) throw error;
    throw new BerthError('storage_full', 'Not enough storage space', { cause: error });
  }
}

/**
 * Runs `work`, which takes access to a directory away and may be repeated. That directory's sessions may be what fills the
 * disk: so when it is full, credentials and sessions go first, then `work` may use the reserve. `failed` is called when even
 * that is not enough.
 * @returns what `work` returns; undefined when the directory has been deleted meanwhile.
 */
export async function withDiskReserve<T>(
  { database, host }: Applying,
  { accountId, id }: { readonly accountId: string; readonly id: string },
  work: () => Promise<T>,
  failed: (directory: HostedDirectory) => Promise<void>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!isFull(error)) throw error;
  }
  const directory = await hostedById(database.reads, accountId, id);
  if (!directory) return undefined;
  await host.shutOut(directory);
  database.reserve.release();
  try {
    return await work();
  } catch (error) {
    if (isFull(error)) await failed(directory);
    throw error;
  }
}

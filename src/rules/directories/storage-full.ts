/** What berth does when the disk is full, whether the file system reports it or the database. */
import { fullAsRefusal, isFull } from '../../foundation/base/errors.ts';
import { type HostedDirectory, hostedById } from './host.ts';
import type { RuleContext, Target } from './target.ts';

/**
 * Runs `work`.
 * @throws {BerthError} `storage_full` when it failed because the disk is full; other errors of `work` unchanged.
 */
export async function refusingWhenFull<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw fullAsRefusal(error);
  }
}

/**
 * Runs `work`, which takes access to a directory away and can be repeated. When the disk is full, the directory's sessions
 * may be filling it: its credentials and sessions are ended, the reserve is released, and `work` runs again. `failed` is
 * called when even that is not enough.
 * @returns the result of `work`; undefined when the directory was deleted meanwhile.
 */
export async function withDiskReserve<T>(
  { database, host }: RuleContext,
  { accountId, id }: Target<never>,
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
  await host.blockLogins(directory);
  database.reserve.release();
  try {
    return await work();
  } catch (error) {
    if (isFull(error)) await failed(directory);
    throw error;
  }
}

/**
 * `berth prepare`, which runs before every start of sshd: writes the files that sshd reads, then the credentials. A power cut may have
 * left the credentials older than the database; berth serve would repair them, but may be slow to start, or broken.
 */
import { join } from 'node:path';
import type { Config } from '../foundation/base/config.ts';
import { noteBoot } from '../foundation/base/boot.ts';
import { systemClock } from '../foundation/base/clock.ts';
import { tryLock } from '../foundation/db/instance-lock.ts';
import { inspect } from '../foundation/db/inspect.ts';
import { isMissing } from '../foundation/base/database-place.ts';
import { errorMessage } from '../foundation/base/errors.ts';
import type { Log } from '../foundation/base/log.ts';
import { dueHere } from '../operating/nodes/leftovers.ts';
import { pathsOf } from '../machine/sftp/paths.ts';
import { applyCredentials } from '../machine/sftp/reconcile.ts';
import { prepareSshd } from '../machine/sftp/sshd.ts';

/**
 * @param disk `accept`: accepts the disk that is there as that of the jails, whatever is on it.
 * @throws {OperatorError} when the operator has to fix something first, or the jails' disk is not mounted.
 */
export async function prepare(config: Config, log: Log, disk: { readonly accept?: boolean } = {}): Promise<void> {
  await prepareSshd(config, log, disk);
  noteBoot(config.stateDir, config.bootId, systemClock().now());
  if (isMissing(config.database)) return;
  // A running berth serve has done this, and knows of changes in progress.
  using lock = tryLock(join(config.stateDir, 'serve.lock'));
  if (!lock) return;
  try {
    await using inspection = await inspect(config.database);
    applyCredentials({ paths: pathsOf(config), log }, await dueHere(inspection.db, config));
  } catch (error) {
    const reason = errorMessage(error);
    log.error({ reason }, 'cannot read the database: sshd uses the credentials on the disk');
  }
}

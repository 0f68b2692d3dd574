/**
 * `berth prepare`, which comes before every start of sshd: what sshd reads, then who may log in. A power cut may have left
 * the credentials on the disk behind the database, and berth serve, which would repair them, may be slow to start or broken.
 */
import { join } from 'node:path';
import type { Config } from '../base/config.ts';
import { noteBoot } from '../base/boot.ts';
import { systemClock } from '../base/clock.ts';
import { tryLock } from '../db/instance-lock.ts';
import { inspect } from '../db/inspect.ts';
import { isMissing } from '../base/database-place.ts';
import { errorMessage } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { dueHere } from '../nodes/due.ts';
import { pathsOf } from '../sftp/paths.ts';
import { applyCredentials } from '../sftp/reconcile.ts';
import { prepareSshd } from '../sftp/sshd.ts';

/**
 * @param disk `acceptEmpty`: takes the disk of the jails as it is, although the directories' files are not on it.
 * @throws {OperatorError} when something on the machine has to be repaired first, or the jails' disk is not mounted.
 */
export async function prepare(config: Config, log: Log, disk: { readonly acceptEmpty?: boolean } = {}): Promise<void> {
  await prepareSshd(config, log, disk);
  noteBoot(config.stateDir, config.bootId, systemClock().now());
  if (isMissing(config.database)) return;
  // A berth serve that runs has done this, and does it better: it knows of changes under way.
  using lock = tryLock(join(config.stateDir, 'serve.lock'));
  if (!lock) return;
  try {
    await using look = await inspect(config.database);
    applyCredentials({ paths: pathsOf(config), log }, await dueHere(look.db, config));
  } catch (error) {
    const reason = errorMessage(error);
    log.error({ reason }, 'the database cannot be read: sshd goes on with the credentials that are on the disk');
  }
}

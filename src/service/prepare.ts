/**
 * `berth prepare`, which runs before every start of sshd: writes the files that sshd reads, then the credentials. A power cut may have
 * left the credentials older than the database; berth serve would repair them, but may be slow to start, or broken.
 */
import { join } from 'node:path';
import { type Config, OF_SSHD, readForSshd } from '../foundation/base/config.ts';
import { noteBoot } from '../foundation/base/boot.ts';
import { systemClock } from '../foundation/base/clock.ts';
import { tryLock } from '../foundation/db/instance-lock.ts';
import { inspect } from '../foundation/db/inspect.ts';
import { isMissing } from '../foundation/base/database-place.ts';
import { errorMessage, OperatorError } from '../foundation/base/errors.ts';
import type { Log } from '../foundation/base/log.ts';
import { dueHere } from '../operating/nodes/leftovers.ts';
import { pathsOf } from '../machine/sftp/paths.ts';
import { applyCredentials } from '../machine/sftp/reconcile.ts';
import { prepareSshd } from '../machine/sftp/sshd.ts';
import { readFileSync } from 'node:fs';
import { FOLDERS, requireUsablePaths } from '../foundation/base/files.ts';
import { replaceFile } from '../machine/sftp/files.ts';

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

// The settings that `berth prepare` works with. A mistake in the settings must not keep sshd from starting again:
// sshd does not depend on most of them, and for those that it depends on, the ones of its last start are kept.

type Variables = Readonly<Record<string, string | undefined>>;

export interface SshdSettings {
  readonly config: Config;
  /** What is wrong with the settings, and what that means. */
  readonly problems: readonly string[];
}

/** @throws {OperatorError} when a setting that sshd depends on is wrong, and there was no start before. */
export function sshdSettings(environment: Variables): SshdSettings {
  try {
    return settingsOf(environment, []);
  } catch (error) {
    const before = error instanceof OperatorError ? lastSettings(environment) : undefined;
    if (!before) throw error;
    const others = Object.entries(environment).filter(([name]) => !OF_SSHD.includes(name));
    const kept = `${errorMessage(error)}: sshd keeps the settings of its last start until this is repaired`;
    return settingsOf({ ...Object.fromEntries(others), ...before }, [kept]);
  }
}

function settingsOf(environment: Variables, problems: readonly string[]): SshdSettings {
  requireUsablePaths(environment);
  const { config, ignored } = readForSshd(environment);
  const ofServe = ignored.map((text) => `configuration: ${text}: berth serve will not start until this is repaired`);
  return { config, problems: [...problems, ...ofServe] };
}

/** Notes the settings of a start of sshd, once its files are written. They may hold the password of the database. */
export function noteSettings({ stateDir }: Pick<Config, 'stateDir'>, environment: Variables): void {
  const own = Object.entries(environment).filter(([name]) => OF_SSHD.includes(name));
  replaceFile(placeOf(stateDir), `${JSON.stringify(Object.fromEntries(own))}\n`, 0o600);
}

/** Undefined when there are none, for example because the state folder itself is named wrongly. */
function lastSettings({ BERTH_STATE_DIR: stateDir = FOLDERS.BERTH_STATE_DIR }: Variables): Variables | undefined {
  try {
    const settings = JSON.parse(readFileSync(placeOf(stateDir), 'utf8')) as Record<string, string>;
    return { ...settings, BERTH_STATE_DIR: stateDir };
  } catch {
    return undefined;
  }
}

function placeOf(stateDir: string): string {
  return join(stateDir, 'sshd', 'settings.json');
}

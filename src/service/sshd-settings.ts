/**
 * The settings that `berth prepare` works with. A mistake in the settings must not keep sshd from starting again: sshd does not depend on
 * most of them, and for those that it depends on, the ones of its last start are kept.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, OF_SSHD, readForSshd } from '../foundation/base/config.ts';
import { errorMessage, OperatorError } from '../foundation/base/errors.ts';
import { FOLDERS, requireUsablePaths } from '../foundation/base/real-folders.ts';
import { replaceFile } from '../machine/sftp/files.ts';

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

/**
 * What happens to the settings in a backup. Settings decide what berth does first, such as where webhooks may go and whether
 * uploads are checked, so a restored berth never starts with settings other than the backup's unless the operator says so.
 */
import { execFile } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { shownPlace } from '../../foundation/base/database-place.ts';
import { OperatorError } from '../../foundation/base/errors.ts';
import { settingsIn } from '../../foundation/base/settings-file.ts';
import { sync } from '../../foundation/base/files.ts';
import { PARTS } from './archive.ts';
import { keptSince } from './pending-restore.ts';

type Variables = Readonly<Record<string, string | undefined>>;

export interface SettingsPlan {
  /** The machine's file. */
  readonly file: string;
  /** `take`: the backup's settings replace the machine's. `beside`: they are put beside them. `leave`: both say the same. */
  readonly what: 'take' | 'beside' | 'leave';
  /** The environment of the restored berth. */
  readonly environment: Variables;
}

interface Planning {
  readonly archive: string;
  readonly file: string;
  /** Which settings to use. Undefined means the backup's, unless the machine has settings of its own. */
  readonly choice?: 'backup' | 'machine' | undefined;
  /** The environment of this process, in which the machine's settings are. */
  readonly environment: Variables;
}

/** @throws {OperatorError} with the differences, when the operator has to choose. */
export async function planSettings({ archive, file, choice, environment }: Planning): Promise<SettingsPlan> {
  const archived = await archivedSettings(archive);
  const hasFile = existsSync(file);
  const own = settingsIn(hasFile ? readFileSync(file, 'utf8') : '');
  const differences = archived === undefined ? [] : differing(archived, own);
  if (archived === undefined || (hasFile && differences.length === 0)) return { file, what: 'leave', environment };
  if (choice === 'machine') return { file, what: 'beside', environment };
  if (choice === undefined && own.size > 0) {
    throw new OperatorError(
      `the settings of the backup are not those in ${file}: ${differences.join('; ')}. Nothing has changed. Restore with --settings-of backup to use the backup's settings, or with --settings-of machine to keep these`,
    );
  }
  const others = Object.entries(environment).filter(([name, value]) => own.get(name) !== value);
  return { file, what: 'take', environment: Object.fromEntries([...archived, ...others]) };
}

/** Undefined when there are none. An archive that cannot be read is refused when it is unpacked. */
async function archivedSettings(archive: string): Promise<Map<string, string> | undefined> {
  try {
    const { stdout } = await promisify(execFile)('tar', ['--extract', '--to-stdout', '-f', archive, PARTS.settings]);
    return settingsIn(stdout);
  } catch {
    return undefined;
  }
}

function differing(archived: ReadonlyMap<string, string>, own: ReadonlyMap<string, string>): string[] {
  const names = [...new Set([...archived.keys(), ...own.keys()])].toSorted();
  return names
    .filter((name) => archived.get(name) !== own.get(name))
    .map(
      (name) =>
        `${name} is ${settingText(name, archived.get(name))} in the backup and ${settingText(name, own.get(name))} here`,
    );
}

function settingText(name: string, value: string | undefined): string {
  if (value === undefined) return 'not set';
  return name.endsWith('_SECRET') ? 'a secret' : shownPlace(value);
}

/**
 * Puts the backup's settings, unpacked at `from`, in their place. The file appears whole.
 * @returns where they are now, and where the machine's own are kept, if it had any.
 */
export function putSettings({ file, what }: SettingsPlan, from: string): { path?: string; kept?: string } {
  if (what === 'leave') return {};
  const path = what === 'take' ? file : `${file}.restored`;
  const fresh = `${path}.new`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  copyFileSync(from, fresh);
  chmodSync(fresh, 0o640);
  sync(fresh);
  const kept = what === 'take' && existsSync(file) ? `${file}.${keptSince('before-restore')}` : undefined;
  if (kept !== undefined) copyFileSync(file, kept);
  renameSync(fresh, path);
  sync(dirname(path));
  return { path, ...(kept !== undefined && { kept }) };
}

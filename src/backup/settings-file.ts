/** Changes one setting of an installed berth (systemd.exec(5), EnvironmentFile). */
import { chmodSync, chownSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { OperatorError } from '../base/errors.ts';
import { sync } from '../base/sync.ts';

/**
 * Sets a variable: in its own line, after its commented default, or at the end. The file appears whole, with its owner and mode, but
 * without permissions for other users, since the value may be secret.
 * @returns false when there is no such file: the settings are elsewhere.
 */
export function writeSetting(file: string, name: string, value: string): boolean {
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, 'utf8').replace(/\n$/, '').split('\n');
  const line = `${name}="${value}"`;
  const isSet = (each: string): boolean => each.trimStart().startsWith(`${name}=`);
  const kept = lines.map((each) => (isSet(each) && each !== line ? `#${each.trimStart()}` : each));
  if (!kept.includes(line)) {
    const last = kept.findLastIndex((each) => each.startsWith(`#${name}=`));
    kept.splice(last < 0 ? kept.length : last + 1, 0, line);
  }
  const { mode, uid, gid } = statSync(file);
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  writeFileSync(fresh, `${kept.join('\n')}\n`, { mode: 0o600 });
  chownSync(fresh, uid, gid);
  chmodSync(fresh, mode & 0o770);
  sync(fresh);
  renameSync(fresh, file);
  sync(dirname(file));
  return true;
}

/** @throws {OperatorError} for a value that would change its meaning in such a file. */
export function refuseUnwritable(name: string, value: string): void {
  if (!/[\s"'\\`]/.test(value)) return;
  throw new OperatorError(`${name} may hold no space, quote or backslash: write them as %20, %22, %27, %5C`);
}

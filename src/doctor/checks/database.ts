/** The database: private, whole, and of this version. Only reads it. */
import { existsSync, lstatSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { lookAt } from '../../db/look.ts';
import { isUnfinished } from '../../db/unfinished-restore.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';

/** A write-ahead log this large is not taken into the database: somebody holds a read open. */
const LARGE_LOG = 512 * 1024 * 1024;

export function databaseCheck(config: Config): Check {
  const file = config.databaseFile;
  return {
    name: 'database',
    async run() {
      if (!existsSync(file)) return [fail(`${file} is missing`, 'start berth for a new one, or: berth restore FILE')];
      const problems: Finding[] = [];
      if (isUnfinished(config))
        problems.push(fail('a restore was interrupted', 'systemctl restart berth, which finishes it first'));
      const mode = lstatSync(file).mode & 0o777;
      if ((mode & 0o077) !== 0)
        problems.push(fail(`others can read ${file} (mode ${mode.toString(8)})`, `chmod 600 ${file}`));
      const log = lstatSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
      if (log > LARGE_LOG) {
        problems.push(
          warn(`${file}-wal has grown to ${log >> 20} MiB`, 'end what holds the database open, then restart berth'),
        );
      }
      await using look = lookAt(file);
      const damage = look.damage();
      if (damage !== undefined) {
        return [
          ...problems,
          fail(`${file} is damaged: ${damage}`, 'stop berth, keep a copy of it, then: berth restore FILE'),
        ];
      }
      const { missing, unknown } = look.schema();
      if (unknown.length > 0) {
        problems.push(fail(`${file} was written by a newer berth (${unknown.join(', ')})`, 'install that version'));
      }
      if (missing.length > 0) problems.push(warn(`${file} is to be migrated (${missing.join(', ')})`, 'restart berth'));
      return orOk(problems, `${file} is whole and of this version`);
    },
  };
}

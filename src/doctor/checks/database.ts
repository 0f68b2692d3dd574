/** The database: private, undamaged, and of this version. Only reads it. */
import { existsSync, lstatSync } from 'node:fs';
import { lookAt } from '../../db/look.ts';
import { isPostgresUrl } from '../../db/place.ts';
import { isUnfinished } from '../../db/unfinished-restore.ts';
import { type Check, fail, orOk, warn } from '../finding.ts';

/** A write-ahead log this large is not being moved into the database: some process keeps a read open. */
const LARGE_LOG = 512 * 1024 * 1024;

export const checkDatabase: Check = async (config, clock) =>
  isPostgresUrl(config.database) ? [] : checkFile(config, clock);

const checkFile: Check = async (config) => {
  const file = config.database;
  if (!existsSync(file)) return [fail(`${file} is missing`, 'start berth for a new one, or: berth restore FILE')];
  const mode = lstatSync(file).mode & 0o777;
  const log = lstatSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  await using look = await lookAt(file);
  const damage = look.damage();
  const { missing, unknown } = damage === undefined ? await look.schema() : { missing: [], unknown: [] };
  return orOk(
    [
      isUnfinished(config) && fail('a restore was interrupted', 'systemctl restart berth, which finishes it first'),
      (mode & 0o077) !== 0 && fail(`others can read ${file} (mode ${mode.toString(8)})`, `chmod 600 ${file}`),
      log > LARGE_LOG &&
        warn(`${file}-wal has grown to ${log >> 20} MiB`, `end what keeps it open (fuser ${file}), then restart berth`),
      damage !== undefined &&
        fail(`${file} is damaged: ${damage}`, 'stop berth, keep a copy of the file, then: berth restore FILE'),
      unknown.length > 0 &&
        fail(`${file} was written by a newer berth (${unknown.join(', ')})`, 'install that version again'),
      missing.length > 0 && warn(`${file} still has to be migrated (${missing.join(', ')})`, 'restart berth'),
    ],
    `${file} is undamaged and of this version`,
  );
};

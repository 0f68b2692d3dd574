/** Checks that there is a recent backup, once there is something to lose. */
import { DAY } from '../../../foundation/base/clock.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { lastBackup } from '../../../foundation/base/last-backup.ts';
import { type Check, ok, warn } from '../finding.ts';

/** Backups are made every night, and one may fail. */
const OLD_DAYS = 2;

const REMEDY = 'systemctl enable --now berth-backup.timer; if one failed, see journalctl -u berth-backup';

export const checkBackups: Check = async (config, clock) => {
  const last = lastBackup(config);
  if (last !== undefined) {
    const days = Math.floor((clock.now() - last) / DAY);
    if (days >= OLD_DAYS) return [warn(`the last backup is ${days} days old`, REMEDY)];
    return [ok('the last backup is less than two days old')];
  }
  await using inspection = await inspect(config.database);
  const first = await inspection.db
    .selectFrom('directories')
    .select('inserted_at')
    .orderBy('inserted_at')
    .limit(1)
    .executeTakeFirst();
  if (first === undefined || clock.now() - first.inserted_at < OLD_DAYS * DAY) return [ok('there is no backup yet')];
  return [warn('there is no backup', REMEDY)];
};

/** Applies retention to a `recordingPlace`. */
import { type Clock, DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { applyRetention, type RetentionOptions } from '../../src/arrivals/uploads/retention.ts';
import type { recordingPlace } from './recording-place.ts';

interface Options {
  readonly clock?: Clock;
  readonly mustStay?: RetentionOptions['mustStay'];
}

/** Keeps the directory's files for one day, by that clock. */
export async function expireNow(
  { database, config, parting, files }: Awaited<ReturnType<typeof recordingPlace>>,
  { clock = systemClock(), mustStay = async () => () => false }: Options = {},
): Promise<void> {
  await database.db.updateTable('directories').set({ retention_days: 1 }).execute();
  await applyRetention(
    {
      database,
      clock,
      log: createLog('silent'),
      node: config.node,
      filesRoot: () => files,
      recorder: parting.recorder,
      clockLead: async () => ({ now: clock.now(), lead: 0 }),
      mustStay,
      drained: () => parting.drained(),
    },
    new AbortController().signal,
  );
}

/** As `expireNow`, two days later. */
export async function expireLater(
  at: Awaited<ReturnType<typeof recordingPlace>>,
  mustStay?: RetentionOptions['mustStay'],
): Promise<void> {
  const clock = { now: () => systemClock().now() + 2 * DAY };
  await expireNow(at, { clock, ...(mustStay && { mustStay }) });
}

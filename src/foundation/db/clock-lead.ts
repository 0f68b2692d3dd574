/**
 * Measures how far the wall clock is ahead of the time that has passed for berth. Removals by age wait that much
 * longer. The last wall time is stored, so that the next start notices if the clock jumped while berth was down (a dead
 * battery, a machine that was off).
 *
 * Machines on one database share the stored time; their clocks may differ by up to an hour.
 *
 * A lead of up to a day is accepted once it has lasted for a day. A larger one stays until the clock is right
 * again, or until `berth clock confirm` says that the machine was off for that long.
 */
import { type Clock, DAY, type Micros, SECOND, type Monotonic } from '../base/clock.ts';
import type { Database } from './open.ts';
import { isShared } from './shared.ts';
import type { Log } from '../base/log.ts';

/** A smaller step is drift, which the system corrects gradually. */
const DRIFT: Micros = SECOND;

/** The longest time that a restart or a reboot takes, and the smallest lead that is logged. */
export const NOTABLE: Micros = 3600 * SECOND;

/** The clock is in doubt if its lead is larger than this. */
export const DOUBTFUL: Micros = DAY;

export interface ClockReading {
  /** How far the wall clock is ahead; negative when it was set back. */
  readonly lead: Micros;
  /** The time from which ages are computed. A lead is subtracted, so that it makes nothing old. */
  readonly now: Micros;
}

/** Reads the clock, and stores its time for the next start. */
export type ClockLead = () => Promise<ClockReading>;

export interface ClockLeadOptions {
  readonly database: Pick<Database, 'db'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly monotonic?: Monotonic;
}

export function createClockLead(options: ClockLeadOptions): ClockLead {
  const { database, clock, log, monotonic = () => performance.now() } = options;
  /** Both clocks when this process last wrote the row. */
  let last = { wall: Number.NaN, steady: 0 };
  let standsSince = monotonic();
  let reported = 0;
  let looking: Promise<ClockReading> | undefined;

  async function look(): Promise<ClockReading> {
    const found = await database.db.transaction().execute(async (tx) => {
      const row = await tx.selectFrom('clock').selectAll().forNoKeyUpdate().executeTakeFirstOrThrow();
      const now = { wall: clock.now(), steady: monotonic() };
      const passed = row.seen_at === last.wall ? (now.steady - last.steady) * 1000 : undefined;
      const step = stepSince(row.seen_at, now.wall, passed, isShared(tx) ? NOTABLE : DRIFT);
      const stands = step === 0 && (now.steady - standsSince) * 1000 > DAY;
      const lead = stands && Math.abs(row.lead) <= DOUBTFUL ? 0 : row.lead + step;
      await tx.updateTable('clock').set({ seen_at: now.wall, lead }).execute();
      return { now, step, lead };
    });
    last = found.now;
    if (found.step !== 0) standsSince = last.steady;
    report(found.lead);
    return { lead: found.lead, now: last.wall - Math.max(0, found.lead) };
  }

  function report(lead: Micros): void {
    const notable = Math.abs(lead) > NOTABLE ? lead : 0;
    if (Math.abs(notable - reported) <= DRIFT) return;
    reported = notable;
    const hours = lead / (3600 * SECOND);
    if (notable === 0) log.info({ hours }, 'the clock is trusted again');
    else if (notable < 0) log.warn({ hours }, `the clock was set back${remedyOf(lead)}`);
    else
      log.warn(
        { hours },
        `the clock is ahead of the time that has passed: no file or history expires because of that${remedyOf(lead)}`,
      );
  }

  return () => (looking ??= look().finally(() => (looking = undefined)));
}

/**
 * By how much the wall clock was set since it showed `seen`.
 * @param passed how long ago that was, in µs; undefined when the time was stored by another process: an earlier berth,
 * `berth clock confirm`, or another machine.
 * @param apart how far the clock of that process may be ahead of this one.
 */
function stepSince(seen: Micros, now: Micros, passed: Micros | undefined, apart: Micros): Micros {
  if (seen === 0) return 0;
  const step = Math.round(now - seen - (passed ?? 0));
  const isPossible = passed === undefined ? step >= -apart && step <= NOTABLE : Math.abs(step) <= DRIFT;
  return isPossible ? 0 : step;
}

function remedyOf(lead: Micros): string {
  return Math.abs(lead) > DOUBTFUL ? '; if it is right, run berth clock confirm' : '';
}

/** Accepts the clock's time as right. Returns by how much it was thought to be ahead. */
export async function confirmClock({ database, clock }: Pick<ClockLeadOptions, 'database' | 'clock'>): Promise<Micros> {
  return database.db.transaction().execute(async (tx) => {
    const { lead } = await tx.selectFrom('clock').select('lead').forNoKeyUpdate().executeTakeFirstOrThrow();
    await tx.updateTable('clock').set({ seen_at: clock.now(), lead: 0 }).execute();
    return lead;
  });
}

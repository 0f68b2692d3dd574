/**
 * How far the wall clock is from the time that has passed for berth: what is to be removed by age waits for as long. The
 * wall time last seen is kept, so that a clock that jumped while berth was down (a dead battery, a machine that was off)
 * is noticed by the next start.
 *
 * Machines on one database share it; their clocks may differ by up to an hour.
 *
 * A small lead is believed when it has stood for a day. A larger one stays until the clock has gone back, or until
 * `berth clock confirm` says that the machine was off for so long.
 */
import { type Clock, DAY, type Micros, SECOND } from './clock.ts';
import type { Monotonic } from './clock-steps.ts';
import type { Database } from './db/open.ts';
import { isShared } from './db/shared.ts';
import type { Log } from './log.ts';

/** Less than this is drift, which the system corrects bit by bit. */
const DRIFT: Micros = SECOND;

/** What a restart or a reboot takes at the most; also the least lead that is worth a line. */
export const NOTABLE: Micros = 3600 * SECOND;

/** From here on the clock is in doubt. */
export const DOUBTFUL: Micros = DAY;

export interface ClockReading {
  /** How far the wall clock is ahead; negative when it was set back. */
  readonly lead: Micros;
  /** What ages are reckoned by: nothing becomes old by a lead. */
  readonly now: Micros;
}

/** Reads the clock, and keeps what it says for the next start. */
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
    if (notable === 0) log.info({ hours }, 'the clock is believed again');
    else if (notable < 0) log.warn({ hours }, `the clock was set back${remedyOf(lead)}`);
    else
      log.warn(
        { hours },
        `the clock is ahead of the time that has passed: nothing becomes old by that${remedyOf(lead)}`,
      );
  }

  return () => (looking ??= look().finally(() => (looking = undefined)));
}

/**
 * By how much the wall clock was set since it was `seen`.
 * @param passed how long ago that was, in µs; undefined when another process saw it: the berth before this one, or
 * `berth clock confirm`, or another machine.
 * @param apart how far its clock may be ahead of this one.
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

/** What the clock says is right. Returns by how much it was thought to be ahead. */
export async function confirmClock({ database, clock }: Pick<ClockLeadOptions, 'database' | 'clock'>): Promise<Micros> {
  return database.db.transaction().execute(async (tx) => {
    const { lead } = await tx.selectFrom('clock').select('lead').forNoKeyUpdate().executeTakeFirstOrThrow();
    await tx.updateTable('clock').set({ seen_at: clock.now(), lead: 0 }).execute();
    return lead;
  });
}

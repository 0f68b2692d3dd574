/** Checks the machine's clock, on which signatures, rate limits, retention and certificates depend. */
import { DAY, formatMicros, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import { NOTABLE } from '../../../foundation/db/clock-lead.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { isMissing } from '../../../foundation/base/database-place.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';
import { command } from '../processes.ts';

/** No right clock shows an earlier time: berth was written after it. */
const EARLIEST: Micros = Date.UTC(2026, 0) * 1000;
const LATEST: Micros = Date.UTC(2100, 0) * 1000;
/** How far the time in a row may be ahead of the clock. */
const MAX_AHEAD: Micros = 60 * SECOND;

const REMEDY = 'set the clock and keep it right: timedatectl set-ntp true';

export const checkClock: Check = async ({ database }, clock) => {
  const now = clock.now();
  const shown = formatMicros(now);
  if (now < EARLIEST || now > LATEST) return [fail(`the machine's clock says ${shown}`, REMEDY)];
  return orOk([await notSynchronized(), ...(await moved(database, now))], `it is ${shown}`);
};

async function notSynchronized(): Promise<Finding | false> {
  const { stdout, status } = await command('timedatectl', ['show', '--property=NTP,NTPSynchronized']);
  // Without systemd, or in a container, something else keeps the time.
  const usesNtp = status === 0 && /^NTP=yes$/m.test(stdout);
  return usesNtp && /^NTPSynchronized=no$/m.test(stdout) && warn('the clock is not synchronized', REMEDY);
}

async function moved(database: string, now: Micros): Promise<(Finding | false)[]> {
  if (isMissing(database)) return [];
  await using inspection = await inspect(database);
  const { newest } = await inspection.db
    .selectFrom('directories')
    .select(({ fn }) => fn.max('updated_at').as('newest'))
    .executeTakeFirstOrThrow();
  const isBehind = newest !== null && newest >= now + MAX_AHEAD;
  const behind = `the clock was set back: a directory was last changed at ${formatMicros(newest ?? now)}`;
  if ((await inspection.schema()).missing.length > 0) return [isBehind && warn(behind, REMEDY)];
  const { lead } = await inspection.db.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
  const days = (Math.abs(lead) / DAY).toFixed(1);
  const text = `the clock ${lead > 0 ? 'is ahead' : 'was set back'} by ${days} days: while it is in doubt, no file or history is removed for its age`;
  return [
    isBehind && warn(behind, REMEDY),
    Math.abs(lead) > NOTABLE && warn(text, `if it is right: berth clock confirm; otherwise ${REMEDY}`),
  ];
}

/** The machine's clock, on which signatures, rate limits, retention and certificates depend. */
import { DAY, formatMicros, type Micros, SECOND } from '../../base/clock.ts';
import { NOTABLE } from '../../db/clock-lead.ts';
import { inspect } from '../../db/inspect.ts';
import { isMissing } from '../../base/database-place.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';
import { command } from '../processes.ts';

/** berth was written after this. */
const EARLIEST: Micros = Date.UTC(2026, 0) * 1000;
const LATEST: Micros = Date.UTC(2100, 0) * 1000;
/** How far a row may lie ahead. */
const AHEAD: Micros = 60 * SECOND;

const REMEDY = 'set the clock and keep it right: timedatectl set-ntp true';

export const checkClock: Check = async ({ database }, clock) => {
  const now = clock.now();
  const shown = formatMicros(now);
  if (now < EARLIEST || now > LATEST) return [fail(`the machine's clock says ${shown}`, REMEDY)];
  return orOk([await notSynchronized(), ...(await moved(database, now))], `it is ${shown}`);
};

async function notSynchronized(): Promise<Finding | false> {
  const { stdout, status } = await command('timedatectl', ['show', '--property=NTP,NTPSynchronized']);
  // Without systemd, or in a container, keeping the time is the host's matter.
  const isAsked = status === 0 && /^NTP=yes$/m.test(stdout);
  return isAsked && /^NTPSynchronized=no$/m.test(stdout) && warn('the clock is not synchronized', REMEDY);
}

async function moved(database: string, now: Micros): Promise<(Finding | false)[]> {
  if (isMissing(database)) return [];
  await using look = await inspect(database);
  const { newest } = await look.db
    .selectFrom('directories')
    .select(({ fn }) => fn.max('updated_at').as('newest'))
    .executeTakeFirstOrThrow();
  const isBehind = newest !== null && newest >= now + AHEAD;
  const behind = `the clock was set back: the newest change to a directory is of ${formatMicros(newest ?? now)}`;
  if ((await look.schema()).missing.length > 0) return [isBehind && warn(behind, REMEDY)];
  const { lead } = await look.db.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
  const days = (Math.abs(lead) / DAY).toFixed(1);
  const what = lead > 0 ? 'is ahead' : 'was set back';
  const text = `the clock ${what} by ${days} days: while it is in doubt, no file or history is removed for its age`;
  return [
    isBehind && warn(behind, REMEDY),
    Math.abs(lead) > NOTABLE && warn(text, `if it is right: berth clock confirm; if not, ${REMEDY}`),
  ];
}

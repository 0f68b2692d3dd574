/** The machine's clock, on which signatures, rate limits, retention and certificates depend. */
import { existsSync } from 'node:fs';
import { formatMicros, type Micros, SECOND } from '../../clock.ts';
import { lookAt } from '../../db/look.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';
import { command } from '../processes.ts';

/** berth was written after this. */
const EARLIEST: Micros = Date.UTC(2026, 0) * 1000;
const LATEST: Micros = Date.UTC(2100, 0) * 1000;
/** How far a row may lie ahead. */
const AHEAD: Micros = 60 * SECOND;

const REMEDY = 'set the clock and keep it right: timedatectl set-ntp true';

export const checkClock: Check = async ({ databaseFile }, clock) => {
  const now = clock.now();
  const shown = formatMicros(now);
  if (now < EARLIEST || now > LATEST) return [fail(`the machine's clock says ${shown}`, REMEDY)];
  return orOk([await notSynchronized(), await setBack(databaseFile, now)], `it is ${shown}`);
};

async function notSynchronized(): Promise<Finding | false> {
  const { stdout, status } = await command('timedatectl', ['show', '--property=NTP,NTPSynchronized']);
  // Without systemd, or in a container, whoever runs the machine keeps its time.
  const isAsked = status === 0 && /^NTP=yes$/m.test(stdout);
  return isAsked && /^NTPSynchronized=no$/m.test(stdout) && warn('the clock is not synchronized', REMEDY);
}

async function setBack(file: string, now: Micros): Promise<Finding | false> {
  if (!existsSync(file)) return false;
  await using look = lookAt(file);
  const { newest } = await look.db
    .selectFrom('directories')
    .select(({ fn }) => fn.max('updated_at').as('newest'))
    .executeTakeFirstOrThrow();
  if (newest === null || newest < now + AHEAD) return false;
  return warn(`the clock was set back: the newest change to a directory is of ${formatMicros(newest)}`, REMEDY);
}

/** The machine's clock: signatures, rate limits, retention and certificates go by it. */
import { existsSync } from 'node:fs';
import { type Clock, formatMicros, type Micros, SECOND } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { lookAt } from '../../db/look.ts';
import { command } from '../command.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';

/** berth was written then, so no later time is earlier. */
const EARLIEST: Micros = Date.UTC(2026, 0) * 1000;
const LATEST: Micros = Date.UTC(2100, 0) * 1000;
/** How far a row may lie ahead. */
const AHEAD: Micros = 60 * SECOND;

const REMEDY = 'set the clock and keep it right: timedatectl set-ntp true';

export function clockCheck(config: Config, clock: Clock): Check {
  return {
    name: 'clock',
    async run() {
      const now = clock.now();
      const shown = formatMicros(now);
      if (now < EARLIEST || now > LATEST) return [fail(`the machine thinks it is ${shown}`, REMEDY)];
      const problems = [...(await synchronized()), ...(await rowsAhead(config.databaseFile, now))];
      return orOk(problems, `it is ${shown}`);
    },
  };
}

async function synchronized(): Promise<Finding[]> {
  const { stdout, status } = await command('timedatectl', ['show', '--property=NTP,NTPSynchronized']);
  // Without systemd, or in a container, whoever runs the machine keeps its time.
  if (status !== 0 || !/^NTPSynchronized=no$/m.test(stdout)) return [];
  if (!/^NTP=yes$/m.test(stdout)) return [];
  return [warn('the clock is not synchronized', REMEDY)];
}

async function rowsAhead(file: string, now: Micros): Promise<Finding[]> {
  if (!existsSync(file)) return [];
  await using look = lookAt(file);
  const { newest } = await look.db
    .selectFrom('directories')
    .select(({ fn }) => fn.max('updated_at').as('newest'))
    .executeTakeFirstOrThrow();
  if (newest === null || newest < now + AHEAD) return [];
  return [warn(`the clock was set back: the newest directory is of ${formatMicros(newest)}`, REMEDY)];
}

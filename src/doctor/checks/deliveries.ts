/** Webhooks that should have been sent: nobody takes them up, or their receivers refuse them. */
import { type Clock, DAY, type Micros, SECOND } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { type Look, lookAt } from '../../db/look.ts';
import { type Check, fail, type Finding, orOk, warn } from '../finding.ts';

/** A due delivery waits for its destination's turn; longer than this is a queue that does not move, or too slow. */
const SLOW: Micros = 600 * SECOND;
/** A lease lasts 20 s; ripening looks more often than this. */
const DEAD: Micros = 120 * SECOND;

export function deliveriesCheck(config: Config, clock: Clock): Check {
  return {
    name: 'deliveries',
    async run() {
      await using look = lookAt(config.databaseFile);
      const now = clock.now();
      const overdue = await late(look, 'queued', now - SLOW);
      const stuck = (await late(look, 'running', now - DEAD)) + (await late(look, 'waiting', now - SLOW));
      const problems: Finding[] = [];
      if (stuck > 0)
        problems.push(fail(`${stuck} deliveries are stuck in an attempt or before a retry`, 'restart berth'));
      if (overdue > 0) {
        problems.push(
          warn(
            `${overdue} webhooks have been due for over 10 minutes`,
            'see whether berth runs, and which receiver is slow: berth deliveries',
          ),
        );
      }
      const failed = await failures(look, now - DAY);
      const given = failed > 0 ? `; ${failed} were given up in the last day (berth deliveries --failed)` : '';
      return orOk(problems, `no webhook is stuck${given}`);
    },
  };
}

async function late({ db }: Look, state: 'queued' | 'running' | 'waiting', before: Micros): Promise<number> {
  const { count } = await db
    .selectFrom('deliveries')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', state)
    .where('due_at', '<', before)
    .executeTakeFirstOrThrow();
  return count;
}

async function failures({ db }: Look, since: Micros): Promise<number> {
  const { count } = await db
    .selectFrom('deliveries')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', 'failed')
    .where('finished_at', '>=', since)
    .executeTakeFirstOrThrow();
  return count;
}

/** Metrics of files that are checked before they are announced. They exist only with a checker. */
import { type Kysely, sql } from 'kysely';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { counter, type Registry, scraped } from './registry.ts';

export interface CheckSources {
  readonly reads: Kysely<Tables>;
  readonly clock: Clock;
}

const OUTCOMES = ['passed', 'rejected', 'failed', 'unchecked'] as const;

export function checkMetrics(
  registry: Registry,
  { reads, clock }: CheckSources,
): (outcome: (typeof OUTCOMES)[number], seconds: number) => void {
  const help = 'Checks of uploads by outcome; `unchecked`: announced without a check.';
  const known = OUTCOMES.map((outcome) => ({ outcome }));
  const checks = counter(registry, { name: 'berth_checks_total', help }, known);
  const time = { name: 'berth_check_seconds_total', help: 'The total time of checks of uploads.' };
  const seconds = counter(registry, time, [{}]);
  const gauge = (name: string, about: string, read: () => Promise<number>): void =>
    scraped(registry, 'gauge', { name, help: about }, () => read().catch(() => ({})));
  gauge('berth_checking_files', 'Uploads that wait for their check.', async () => {
    const { count } = await checking(reads);
    return count;
  });
  gauge('berth_checking_oldest_seconds', 'How long the oldest of them has waited; 0 without any.', async () => {
    const { oldest } = await checking(reads);
    return oldest === null ? 0 : Math.max(0, clock.now() - oldest) / 1_000_000;
  });
  gauge(
    'berth_quarantined_files',
    'Uploads that were rejected, until an operator releases or deletes them.',
    async () => {
      const { count } = await reads
        .selectFrom('quarantine')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow();
      return count;
    },
  );
  return (outcome, took) => {
    checks(1, { outcome });
    seconds(took);
  };
}

function checking(reads: Kysely<Tables>) {
  return (
    reads
      .selectFrom('files')
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min<number | null>('uploaded_at').as('oldest')])
      // A literal in the text, since SQLite could not use the partial index with a parameter.
      .where('state', '=', sql.lit('checking'))
      .executeTakeFirstOrThrow()
  );
}

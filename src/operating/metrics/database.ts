/**
 * Metrics that each scrape reads from the database: its state, the nodes that share it, the outbox, partial uploads. While the database
 * is unavailable these have no samples; all other metrics still have theirs.
 */
import { type Kysely, sql } from 'kysely';
import type { Clock } from '../../foundation/base/clock.ts';
import { standbyLags } from '../../foundation/db/postgres-server.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { listNodes } from '../nodes/list.ts';
import { type Registry, type Samples, scraped } from './registry.ts';

export interface DatabaseSources {
  readonly reads: Kysely<Tables>;
  /** This machine's name; empty with SQLite. */
  readonly node: string;
  readonly clock: Clock;
}

const OPEN_STATES = ['queued', 'running', 'waiting'] as const;
const NODE_STATES = ['live', 'away', 'drained'] as const;

export function databaseMetrics(registry: Registry, { reads, node, clock }: DatabaseSources): void {
  const gauge = (name: string, help: string, read: () => Promise<Samples>, label = ''): void =>
    scraped(registry, 'gauge', { name, help, label }, () => read().catch(() => ({})));
  gauge(
    'berth_database_up',
    '1 while the database answers; otherwise the metrics that are read from it are missing.',
    () =>
      answer(reads).then(
        () => 1,
        () => 0,
      ),
  );
  gauge('berth_database_answer_seconds', 'How long the database took to answer a trivial query.', () => answer(reads));
  gauge(
    'berth_database_standby_lag_bytes',
    "How far PostgreSQL's standbys are behind; needs pg_monitor.",
    () => standbyLags(reads),
    'standby',
  );
  gauge(
    'berth_nodes',
    'Machines that share the database, by state: live, away, drained (get no new directories).',
    async () => {
      const states = node === '' ? [] : (await listNodes(reads)).map(({ state }) => state);
      return Object.fromEntries(NODE_STATES.map((each) => [each, states.filter((state) => state === each).length]));
    },
    'state',
  );
  gauge(
    'berth_unapplied_directories',
    'Directories with a change that their node has yet to make durable on its disk.',
    () => pendingApply(reads),
    'node',
  );
  gauge('berth_partial_uploads', 'Files whose upload was cut off and not completed.', () => partialUploads(reads));
  gauge('berth_outbox_oldest_seconds', 'Age of the oldest undelivered webhook; 0 without any.', async () => {
    const now = clock.now();
    const oldest = await Promise.all(OPEN_STATES.map(async (state) => (await outbox(reads, state)).oldest ?? now));
    return Math.max(0, now - Math.min(...oldest)) / 1_000_000;
  });
  gauge(
    'berth_outbox_deliveries',
    'Undelivered webhooks: due (queued), being sent (running), waiting for a retry (waiting).',
    async () => {
      const counts = OPEN_STATES.map(async (state) => [state, (await outbox(reads, state)).count] as const);
      return Object.fromEntries(await Promise.all(counts));
    },
    'state',
  );
  gauge('berth_clock_lead_seconds', 'How far the clock is ahead of the elapsed time; see berth clock.', async () => {
    const { lead } = await reads.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
    return lead / 1_000_000;
  });
}

/** How long a trivial query takes, in seconds. @throws when the database does not answer. */
async function answer(reads: Kysely<Tables>): Promise<number> {
  const began = performance.now();
  await sql`select 1`.execute(reads);
  return (performance.now() - began) / 1000;
}

async function pendingApply(reads: Kysely<Tables>): Promise<Record<string, number>> {
  const rows = await reads
    .selectFrom('unapplied as u')
    .innerJoin('directories as d', 'd.id', 'u.directory_id')
    .select(({ fn }) => ['d.node', fn.countAll<number>().as('count')])
    .groupBy('d.node')
    .execute();
  return Object.fromEntries(rows.map(({ node, count }) => [node, count]));
}

/** The number of deliveries in that state, and since when the oldest is in the outbox. */
function outbox(reads: Kysely<Tables>, state: (typeof OPEN_STATES)[number]) {
  return (
    reads
      .selectFrom('deliveries')
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('inserted_at').as('oldest')])
      // A literal in the text, since SQLite could not use the partial index with a parameter.
      .where('state', '=', sql.lit(state))
      .executeTakeFirstOrThrow()
  );
}

async function partialUploads(reads: Kysely<Tables>): Promise<number> {
  const { count } = await reads
    .selectFrom('files')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', sql.lit('partial'))
    .executeTakeFirstOrThrow();
  return count;
}

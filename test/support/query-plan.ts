/** How SQLite goes about queries: the lines of EXPLAIN QUERY PLAN for each of those that `work` makes. */
import { CompiledQuery, type Kysely, type RootOperationNode } from 'kysely';
import type { Tables } from '../../src/foundation/db/schema.ts';

export async function plansOf(
  reads: Kysely<Tables>,
  work: (reads: Kysely<Tables>) => Promise<unknown>,
): Promise<string[][]> {
  const nodes: RootOperationNode[] = [];
  const watched = reads.withPlugin({
    transformQuery({ node }) {
      nodes.push(node);
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  });
  await work(watched);
  const plans: string[][] = [];
  for (const node of nodes) {
    const { sql, parameters } = reads.getExecutor().compileQuery(node, { queryId: 'plan' });
    const { rows } = await reads.executeQuery<{ detail: string }>(
      CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]),
    );
    plans.push(rows.map(({ detail }) => detail));
  }
  return plans;
}

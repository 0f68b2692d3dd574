/** Checks the machines that share a PostgreSQL database: whether each is live, and what waits for one that is not. */
import { sql } from 'kysely';
import { inspect } from '../../../foundation/db/inspect.ts';
import { listNodes } from '../../nodes/list.ts';
import { type Check, fail, orOk, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/terminal.ts';

export const checkNodes: Check = async ({ database, node }) => {
  if (node === '') return [];
  await using inspection = await inspect(database);
  const nodes = await listNodes(inspection.db);
  const waiting = await inspection.db
    .selectFrom('unapplied as u')
    .innerJoin('directories as d', 'd.id', 'u.directory_id')
    .select(({ fn }) => ['d.node', fn.countAll<number>().as('changes')])
    .where('u.done', '<', sql.ref<number>('u.version'))
    .groupBy('d.node')
    .execute();
  const away = nodes.filter(({ state, directories }) => state === 'away' && directories > 0);
  return orOk(
    [
      !nodes.some(({ name }) => name === node) &&
        warn(`the database does not know the node ${node} yet`, 'start berth, or correct BERTH_NODE'),
      ...away.map(({ name, directories }) => {
        const changes = waiting.find((each) => each.node === name)?.changes ?? 0;
        return fail(
          `the node ${name} is away: uploads to its ${counted(directories, 'directory', 'directories')} are not announced, and ${counted(changes, 'change')} must wait for it`,
          `start berth on ${name}`,
        );
      }),
    ],
    `this is the node ${node}; ${nodes.map(({ name, state }) => `${name} is ${state}`).join(', ')}`,
  );
};

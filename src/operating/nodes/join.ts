/** Makes this machine one of several nodes, or the only one. */
import { onlyHome } from '../../rules/directories/host.ts';
import type { Nodes } from './start.ts';
import type { Ground } from '../../foundation/context.ts';
import type { Config } from '../../foundation/base/config.ts';

/**
 * The code of several nodes is imported only when this machine has a name among them: PostgreSQL's client takes memory.
 * @throws {OperatorError} when another machine has the name.
 */
export async function joinNodes(ground: Ground): Promise<Nodes> {
  if (ground.config.node === '') return onlyNode(ground.config);
  const { startNodes } = await import('./start.ts');
  return startNodes(ground);
}

function onlyNode(config: Config): Nodes {
  return {
    placement: onlyHome(config),
    hostOf: (local) => local,
    filesOf: (own) => own,
    isShut: () => false,
    through: (_id, work) => work(),
    departures: () => undefined,
    isCutOff: () => false,
    begin: async () => undefined,
    close: async () => undefined,
  };
}

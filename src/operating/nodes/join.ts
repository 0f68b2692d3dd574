/** Makes this machine one of several nodes, or the only one. */
import { onlyHome } from '../../rules/directories/host.ts';
import type { Nodes, NodesOptions } from './start.ts';

/**
 * The code of several nodes is imported only when this machine has a name among them: PostgreSQL's client takes memory.
 * @throws {OperatorError} when another machine has the name.
 */
export async function joinNodes(options: NodesOptions): Promise<Nodes> {
  if (options.config.node === '') return onlyNode(options);
  const { startNodes } = await import('./start.ts');
  return startNodes(options);
}

function onlyNode({ config }: NodesOptions): Nodes {
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

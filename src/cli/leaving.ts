/** Has the service that runs here let a directory go (`http/moves.ts`): for as long as the connection is open. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Departure } from '../nodes/move/departure.ts';
import type { Move, Moved } from '../nodes/move/rehome.ts';
import { OPERATOR, operatorLogin, operatorSocket } from '../operator-socket.ts';
import { answered } from './directory/service.ts';
import type { Invocation } from './invocation.ts';

/** @throws {OperatorError} in the service's words, or when it does not run; as its functions do. */
export async function leaving(
  { config, environment }: Pick<Invocation, 'config' | 'environment'>,
  { id, to }: Pick<Move, 'id' | 'to'>,
): Promise<Departure> {
  const socketPath = operatorSocket(config());
  const headers = { [OPERATOR]: operatorLogin(environment), 'content-type': 'application/json' };

  const post = <T>(path: string, body: object | undefined, read: (incoming: IncomingMessage) => T | Promise<T>) =>
    answered({ socketPath, method: 'POST', path, headers, body }, read);

  const open = await post(`/moves/${id}`, { to }, (incoming) => incoming);
  open.on('error', () => undefined); // the commit tells
  const [name] = (await once(open, 'data')) as [Buffer];
  return {
    async commit() {
      const answer = await post(`/moves/${name.toString().trim()}/commit`, undefined, text);
      return (JSON.parse(answer) as { data: Moved & { isApplied: boolean } }).data;
    },
    end: async () => void open.destroy(),
  };
}

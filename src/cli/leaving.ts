/** Has the service that runs here let a directory go (`http/moves.ts`): for as long as the connection is open. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { errorCode, OperatorError } from '../errors.ts';
import type { Departure } from '../nodes/move/departure.ts';
import type { Move, Moved } from '../nodes/move/rehome.ts';
import { OPERATOR, operatorLogin, operatorSocket } from '../operator-socket.ts';
import { inWords, unreachable } from './directory/service.ts';
import type { Invocation } from './invocation.ts';

/** @throws {OperatorError} in the service's words, or when it does not run; as its functions do. */
export async function leaving(
  { config, environment }: Pick<Invocation, 'config' | 'environment'>,
  { id, to }: Pick<Move, 'id' | 'to'>,
): Promise<Departure> {
  const socketPath = operatorSocket(config());
  const headers = { [OPERATOR]: operatorLogin(environment), 'content-type': 'application/json' };

  async function post(path: string, body?: object): Promise<IncomingMessage> {
    const outgoing = request({ socketPath, method: 'POST', path, headers, agent: false });
    outgoing.end(body && JSON.stringify(body));
    try {
      const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
      const { statusCode = 0 } = incoming;
      if (statusCode >= 400) throw new OperatorError(inWords(await text(incoming), statusCode));
      return incoming;
    } catch (error) {
      if (error instanceof OperatorError) throw error;
      throw new OperatorError(unreachable(errorCode(error), socketPath), { cause: error });
    }
  }

  const open = await post(`/moves/${id}`, { to });
  open.on('error', () => undefined); // the commit tells
  const [name] = (await once(open, 'data')) as [Buffer];
  return {
    async commit() {
      const { data } = JSON.parse(await text(await post(`/moves/${name.toString().trim()}/commit`))) as {
        data: Moved & { isApplied: boolean };
      };
      return data;
    },
    end: async () => void open.destroy(),
  };
}

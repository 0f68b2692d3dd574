/** Sends a command's requests to the running service: the API, over a socket that only root can open. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { errorCode, OperatorError } from '../../foundation/base/errors.ts';
import { ACCOUNT, OPERATOR, operatorLogin, operatorSocket } from '../../foundation/base/operator-socket.ts';
import type { Invocation } from '../invocation.ts';

export interface Answer<Data> {
  /** The answer's `data`, and its JSON text. */
  readonly data: Data;
  readonly json: string;
  /** The texts of the answer's `Warning` headers. */
  readonly warnings: readonly string[];
}

export type Ask = <Data>(method: string, path: string, body?: object) => Promise<Answer<Data>>;

type Refusal = { readonly error?: string; readonly errors?: Readonly<Record<string, readonly string[]>> };

/**
 * Sends requests for that account; paths are below `/api/v1`.
 * @throws {OperatorError} when the service does not run, or with the text of its refusal.
 */
export function asking({ config, environment }: Invocation, account: string): Ask {
  const socketPath = operatorSocket(config());
  const login = operatorLogin(environment);
  return async (method, path, body) => {
    const headers = { [ACCOUNT]: account, [OPERATOR]: login, 'content-type': 'application/json' };
    const { answer, warning } = await answered(
      { socketPath, method, path: `/api/v1${path}`, headers, body },
      async (incoming) => ({
        answer: await text(incoming),
        warning: incoming.headers.warning ?? '',
      }),
    );
    const json = /^\{"data":(.*)\}$/s.exec(answer)?.[1] ?? 'null';
    return { data: JSON.parse(json) as never, json, warnings: warningsIn(warning) };
  };
}

export interface Question {
  readonly socketPath: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
}

/**
 * Sends a request to the service's socket. @param read turns its answer into the result.
 * @throws {OperatorError} when the service does not run, or with the text of its refusal.
 */
export async function answered<T>(
  { body, socketPath, ...about }: Question,
  read: (incoming: IncomingMessage) => T | Promise<T>,
): Promise<T> {
  // Loaded here, since Node's HTTP would take every command 20 ms longer to start.
  const { request } = await import('node:http');
  const outgoing = request({ ...about, socketPath, agent: false });
  outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  try {
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    const { statusCode = 0, headers } = incoming;
    if (statusCode >= 400) {
      const words = inWords(await text(incoming), statusCode);
      const id = String(headers['x-request-id']);
      throw new OperatorError(
        WITHOUT_REASON.has(words)
          ? `${words}: the reason is in the log (journalctl -u berth, request_id ${id})`
          : words,
      );
    }
    return await read(incoming);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(unreachable(errorCode(error), socketPath), { cause: error });
  }
}

/** The messages that hide errors of the service itself from API clients (`web/responses.ts`). The cause is in the log. */
const WITHOUT_REASON: ReadonlySet<string> = new Set(['Service unavailable', 'Internal server error']);

/** Says why the socket does not answer, by the error's code. */
function unreachable(code: string | undefined, socket: string): string {
  if (code === 'EACCES') return `only root may use ${socket}: run this with sudo`;
  if (code === 'ENOENT' || code === 'ECONNREFUSED') {
    return 'berth serve does not run here: start it with systemctl start berth, or with scripts/start in a checkout';
  }
  return `berth serve did not answer (${code ?? 'the connection ended'}): berth audit shows whether it made the change`;
}

function inWords(answer: string, status: number): string {
  try {
    const { error, errors = {} } = JSON.parse(answer) as Refusal;
    return (
      error ??
      Object.entries(errors)
        .map(([field, messages]) => `${field} ${messages.join(', ')}`)
        .join('; ')
    );
  } catch {
    return `berth serve answered ${status}`;
  }
}

function warningsIn(header: string): string[] {
  return [...header.matchAll(/299 - "([^"]*)"/g)].map(([, words = '']) => words);
}

/**
 * Agents that open connections to allowed addresses only (docs/design.md, 9). They check where the socket is opened:
 * a literal as it is, a name by every address in the very answer that is then connected to, so neither a spelling,
 * a redirect, a proxy variable nor a second DNS answer gets past. A kept connection was checked when it was opened.
 */
import { Agent, type AgentOptions, type ClientRequestArgs } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import { callbackify } from 'node:util';
import { errorMessage } from '../errors.ts';
import { connectRule } from './address-rule.ts';
import { PROVEN_EACH } from './destinations.ts';
import { type ResolveName, resolver } from './names.ts';
import { isShortage } from './shortage.ts';

/**
 * The destination is one that webhooks may not go to. Its message is for tenants: of a name it says the same whether there is
 * none or it leads into the operator's network, so that nobody maps that network by it. `detail` is for the log.
 */
export class DestinationError extends Error {
  readonly detail: string;

  constructor(message: string, detail = message) {
    super(message);
    this.name = 'DestinationError';
    this.detail = detail;
  }
}

function forbiddenLiteral(address: string): DestinationError {
  return new DestinationError(`destination ${address} is not allowed`);
}

function forbiddenName(name: string, detail: string): DestinationError {
  return new DestinationError(`the name ${name} has no address that webhooks may go to`, `${name}: ${detail}`);
}

export interface GuardedAgents {
  readonly http: Agent;
  readonly https: TlsAgent;
}

type OnConnection = (error: Error | null, stream: Duplex) => void;
type Connect = (options: ClientRequestArgs, callback?: OnConnection) => Duplex | null | undefined;

/** An idle connection is given up before most servers close it: a request into a closing one would be a lost attempt. */
const IDLE_MS = 1000;
/** Attempts at a destination end in groups, and the next begin in groups: none of their sockets is closed between. */
const OPTIONS: AgentOptions = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: PROVEN_EACH };

/**
 * @param allow CIDRs that are let through although they would be refused.
 * @param secureContext with the certificates that are trusted; Node's own when left out.
 * @throws {OperatorError} when one of the CIDRs is none.
 */
export function guardedAgents(
  allow: readonly string[],
  resolve: ResolveName = resolver(),
  secureContext?: SecureContext,
): GuardedAgents {
  const allowed = connectRule(allow);
  const lookup = guardedLookup(allowed, resolve);
  const https = new TlsAgent({ ...OPTIONS, ...(secureContext && { secureContext }) });
  return { http: guarded(new Agent(OPTIONS), allowed, lookup), https: guarded(https, allowed, lookup) };
}

/** Puts the check before the one place where that agent opens connections. */
function guarded<A extends Agent>(agent: A, allowed: (address: string) => boolean, lookup: LookupFunction): A {
  const open: Connect = agent.createConnection.bind(agent);
  const connect: Connect = (options, callback) => {
    const host = options.host ?? '';
    // net.connect asks no lookup for a literal; a socket path would go round both.
    if (host === '' || options.socketPath || (isIP(host) && !allowed(host))) {
      const refusal = forbiddenLiteral(options.socketPath ?? host);
      // Node's agents wait for the callback when nothing is returned; the stream is unused beside an error.
      (callback as ((error: Error) => void) | undefined)?.(refusal);
      return undefined;
    }
    return open({ ...options, lookup }, callback);
  };
  return Object.assign(agent, { createConnection: connect });
}

/** One forbidden address among a name's answers refuses the name: an honest receiver has none. */
function guardedLookup(allowed: (address: string) => boolean, resolve: ResolveName): LookupFunction {
  const ask = callbackify(resolve);
  return (name, { all }, callback) => {
    ask(name, (failure, addresses) => {
      if (failure) return callback(isShortage(failure) ? failure : forbiddenName(name, errorMessage(failure)), '', 0);
      const forbidden = addresses.find((address) => !allowed(address));
      const [first] = addresses;
      if (forbidden !== undefined || first === undefined) {
        return callback(forbiddenName(name, `${forbidden ?? 'no address'} is not allowed`), '', 0);
      }
      // With autoSelectFamily, Node asks for all and tries them in turn.
      if (!all) return callback(null, first, isIP(first));
      return callback(
        null,
        addresses.map((address) => ({ address, family: isIP(address) })),
      );
    });
  };
}

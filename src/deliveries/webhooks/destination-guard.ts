/**
 * HTTP agents that connect only to allowed addresses (docs/design.md, 9). They check where the socket is opened: an
 * address literal directly, a name by all addresses in the DNS answer that is then used. So no spelling, redirect,
 * proxy variable or second DNS answer gets around the check. A kept-alive connection was checked when it was opened.
 */
import { Agent, type AgentOptions, type ClientRequestArgs } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import { callbackify } from 'node:util';
import { errorMessage } from '../../foundation/base/errors.ts';
import { connectRule } from './address-rule.ts';
import { PROVEN_EACH } from './destinations.ts';
import { type ResolveName, resolver } from './names.ts';
import { isShortage } from './shortage.ts';

/**
 * A destination that webhooks may not go to. The message is for tenants. For a name it is the same whether the name
 * does not exist or leads into the operator's network, so that nobody can map that network. `detail` is for the log.
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

export interface Agents {
  readonly http: Agent;
  readonly https: TlsAgent;
}

export interface GuardedAgents {
  /** Keep connections open for later requests. */
  readonly kept: Agents;
  /** Open a new connection for each request. */
  readonly fresh: Agents;
}

type OnConnection = (error: Error | null, stream: Duplex) => void;
type Connect = (options: ClientRequestArgs, callback?: OnConnection) => Duplex | null | undefined;

/** How long an idle connection is kept, in ms. Most servers close it later, so few requests have to be sent again. */
const IDLE_MS = 1000;
/** Attempts at a destination end and begin in groups. `maxFreeSockets` keeps all of their sockets open in between. */
const KEPT: AgentOptions = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: PROVEN_EACH };

/**
 * @param allow CIDRs that are allowed in addition to public addresses.
 * @param secureContext holds the trusted certificates; Node's own are used when it is left out.
 * @throws {OperatorError} when one of the CIDRs is invalid.
 */
export function guardedAgents(
  allow: readonly string[],
  resolve: ResolveName = resolver(),
  secureContext?: SecureContext,
): GuardedAgents {
  const allowed = connectRule(allow);
  const lookup = guardedLookup(allowed, resolve);
  const agents = (options: AgentOptions): Agents => ({
    http: guarded(new Agent(options), allowed, lookup),
    https: guarded(new TlsAgent({ ...options, ...(secureContext && { secureContext }) }), allowed, lookup),
  });
  return { kept: agents(KEPT), fresh: agents({ keepAlive: false }) };
}

/** Adds the check to the only function through which the agent opens connections. */
function guarded<A extends Agent>(agent: A, allowed: (address: string) => boolean, lookup: LookupFunction): A {
  const open: Connect = agent.createConnection.bind(agent);
  const connect: Connect = (options, callback) => {
    const host = options.host ?? '';
    // net.connect calls no lookup for an address literal, and a socket path would bypass both checks.
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

/** A lookup that refuses a name if any of its addresses is forbidden. An honest receiver has no such address. */
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

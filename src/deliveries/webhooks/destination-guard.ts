/**
 * HTTP agents that connect only to allowed addresses (docs/design.md, 9). They check where the socket is opened: an
 * address literal directly, a name by all addresses in the DNS answer that is then used. So no spelling, redirect,
 * proxy variable or second DNS answer gets around the check. A kept-alive connection was checked when it was opened.
 */
import { Agent, type AgentOptions, type ClientRequestArgs } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { isIP, type LookupFunction, type TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
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

/** How long an attempt may take until the head of the answer has arrived, in ms (specification, "Limits"). */
export const HEAD_MS = 5000;

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
  const judged = judge(allowed, resolve);
  const agents = (options: AgentOptions): Agents => ({
    http: guarded(new Agent(options), allowed, judged),
    https: guarded(new TlsAgent({ ...options, ...(secureContext && { secureContext }) }), allowed, judged),
  });
  return { kept: agents(KEPT), fresh: agents({ keepAlive: false }) };
}

/** Adds the check to the only function through which the agent opens connections. */
function guarded<A extends Agent>(agent: A, allowed: (address: string) => boolean, judged: ResolveName): A {
  const open: Connect = agent.createConnection.bind(agent);
  const connect: Connect = (options, callback) => {
    const host = options.host ?? '';
    // Node's agents wait for the callback when nothing is returned; the stream is unused beside an error.
    const answer = callback as ((error: unknown, stream?: Duplex) => void) | undefined;
    // A socket path would bypass the check.
    if (host === '' || options.socketPath || (isIP(host) && !allowed(host))) {
      answer?.(forbiddenLiteral(options.socketPath ?? host));
      return undefined;
    }
    if (isIP(host)) return open(options, callback);
    const openNamed = async (): Promise<void> => {
      try {
        const stream = open({ ...options, ...inTurn(await judged(host)) }, callback);
        if (stream) answer?.(null, stream);
      } catch (error) {
        answer?.(error);
      }
    };
    void openNamed();
    return undefined;
  };
  return Object.assign(agent, { createConnection: connect });
}

/**
 * Has Node try these addresses in turn, and no others. Each gets its part of the time, as does the answer: Node's own
 * 250 ms are less than a handshake with another continent takes.
 */
function inTurn(addresses: readonly string[]): Pick<TcpNetConnectOpts, 'lookup' | 'autoSelectFamilyAttemptTimeout'> {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  const lookup: LookupFunction = (_name, { all: wantsAll }, callback) => {
    const [first] = all;
    if (wantsAll || !first) callback(null, all);
    else callback(null, first.address, first.family);
  };
  return { lookup, autoSelectFamilyAttemptTimeout: Math.floor(HEAD_MS / (all.length + 1)) };
}

/** Resolves a name, and refuses it if any of its addresses is forbidden. An honest receiver has no such address. */
function judge(allowed: (address: string) => boolean, resolve: ResolveName): ResolveName {
  return async (name) => {
    const addresses = await resolve(name).catch((error: unknown) => {
      throw isShortage(error) ? error : forbiddenName(name, errorMessage(error));
    });
    const forbidden = addresses.find((address) => !allowed(address));
    if (forbidden === undefined && addresses.length > 0) return addresses;
    throw forbiddenName(name, `${forbidden ?? 'no address'} is not allowed`);
  };
}

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
import { errorCode, errorMessage } from '../../foundation/base/errors.ts';
import { connectRule } from './address-rule.ts';
import { PROVEN_EACH } from './destinations.ts';
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** Addresses of a name, as text; rejects when it has none. Nothing is cached: connections are kept open instead. */
export type ResolveName = (name: string) => Promise<string[]>;

/** How long an answer for the other family is waited for after the first, in ms. */
const LATE_MS = 250;

interface NameOptions {
  readonly hostsFile?: string;
  /** Servers to ask, as `address:port`; by default those of resolv.conf, which is read each time. */
  readonly servers?: readonly string[];
}

/**
 * Resolves receivers' names without `dns.lookup`. That function runs getaddrinfo in libuv's few threads, where two
 * names with dead servers would delay all other look-ups of the process for seconds. c-ares needs no thread, but does
 * not read /etc/hosts, so this does.
 */
export function resolver({ hostsFile = '/etc/hosts', servers }: NameOptions = {}): ResolveName {
  return async (name) => {
    const wanted = name.toLowerCase().replace(/\.$/, '');
    const listed = fromHosts(await readFile(hostsFile, 'utf8').catch(nothing), wanted);
    if (listed.length > 0) return listed;
    // Not a name of the DNS (RFC 6761, 6.3). A minimal machine has no hosts file.
    if (wanted === 'localhost') return ['127.0.0.1'];
    const dns = new Resolver({ timeout: 1500, tries: 2 });
    if (servers) dns.setServers(servers);
    // Answers of both families, for a receiver that is reachable over one of them only.
    const questions = [dns.resolve4(wanted), dns.resolve6(wanted)] as const;
    // Some servers answer the question for one family and drop the other.
    void Promise.any(questions)
      .then(() => sleep(LATE_MS, undefined, { ref: false }))
      .then(
        () => dns.cancel(),
        () => undefined,
      );
    const answers = await Promise.allSettled(questions);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length > 0) return found;
    throw new Error(`the name ${name} cannot be resolved`, {
      cause: answers[0].status === 'rejected' && answers[0].reason,
    });
  };
}

/**
 * A missing hosts file counts as empty. If the file cannot be opened for lack of resources, it may list the name, so
 * the error is passed on.
 */
function nothing(error: unknown): string {
  if (isShortage(error)) throw error;
  return '';
}

/** hosts(5): an address, then names, `#` begins a comment. */
function fromHosts(text: string, name: string): string[] {
  return text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    return isIP(address) && names.some((listed) => listed.toLowerCase() === name) ? [address] : [];
  });
}

// Recognizes attempts that never reached the receiver because this machine lacked a resource.

/** The error codes for a lack of descriptors, memory, buffers or local ports. */
const LACKS = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL']);
/**
 * The system calls before there is a connection: reading the hosts file, and opening the socket. A failed `write` may
 * have reached the receiver.
 */
const BEFORE = new Set(['open', 'connect']);

/**
 * Whether a lack of resources is why there was no connection. If several addresses were tried, it must be the reason
 * for all of them.
 */
export function isShortage(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isShortage);
  if (!(error instanceof Error) || !('syscall' in error)) return false;
  return BEFORE.has(String(error.syscall)) && LACKS.has(errorCode(error) ?? '');
}

/**
 * The connections of a server: how many there may be, and which one is closed when there are too many.
 *
 * Promise: idle connections lock nobody out. When there are too many, a connection that waits for its client is closed to
 * make room: the oldest, preferably one without a valid key or session. If the new connection's address already has its
 * share, an older one of that address is closed.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { totalmem } from 'node:os';
import { clientNetwork } from '../web/client-address.ts';

/** The most memory that a connection takes while its client is silent. 31 to 67 KB were measured. */
const BYTES_EACH = 65_536;
/** The share of the memory that connections may take. */
const MEMORY_SHARE = 1 / 8;
const MOST_CONNECTIONS = 4096;
/** The share of all connections that one address may have. */
const ADDRESS_SHARE = 1 / 4;

export interface ConnectionLimits {
  readonly total: number;
  /** The limit for one address (with IPv6, one /64). */
  readonly ofAddress: number;
}

/**
 * At most half of this process's descriptors, since the database, sshd's log and webhooks need some too, and at most an eighth
 * of the memory.
 * @param servers how many servers share these.
 */
export function connectionLimits(servers = 1): ConnectionLimits {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const descriptors = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity) / 2;
  // Without a limit of the control group, `constrainedMemory` is 0 or more than there is.
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem());
  const total = Math.floor(Math.min(MOST_CONNECTIONS, descriptors, (memory * MEMORY_SHARE) / BYTES_EACH) / servers);
  return { total, ofAddress: Math.max(1, Math.floor(total * ADDRESS_SHARE)) };
}

interface Connection {
  readonly socket: Socket;
  readonly network: string;
  /** Requests without a complete response. */
  readonly requests: Set<IncomingMessage>;
  isAuthenticated: boolean;
}

export interface ConnectionsOptions {
  readonly limits: ConnectionLimits;
  /** Whether an address belongs to a proxy, which has many clients behind it. */
  isProxy(address: string | undefined): boolean;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #isProxy: ConnectionsOptions['isProxy'];
  /** Oldest first, by the client's address and port, since a TLS connection and its requests have different socket objects. */
  readonly #open = new Map<string, Connection>();
  /** How many connections each network has. */
  readonly #counts = new Map<string, number>();

  constructor({ limits, isProxy }: ConnectionsOptions) {
    this.#limits = limits;
    this.#isProxy = isProxy;
  }

  /** Must be called after all other listeners for the server's connections are added, so that its own runs first. */
  watch(server: Server): void {
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
  }

  /** Records that a request begins. */
  begins(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#open.get(nameOf(request.socket));
    if (!connection) return;
    connection.requests.add(request);
    response.once('close', () => connection.requests.delete(request));
  }

  /** Records that a request had a valid key or session. */
  authenticated({ socket }: IncomingMessage): void {
    const connection = this.#open.get(nameOf(socket));
    if (connection) connection.isAuthenticated = true;
  }

  /** Closes the connections on which nothing was received yet, or all. */
  end(which: 'silent' | 'all'): void {
    for (const { socket } of this.#open.values()) if (which === 'all' || socket.bytesRead === 0) socket.destroy();
  }

  #add(socket: Socket): void {
    const name = nameOf(socket);
    const network = this.#isProxy(socket.remoteAddress) ? '' : clientNetwork(socket.remoteAddress ?? '');
    const isOverShare = network !== '' && this.#countOf(network) >= this.#limits.ofAddress;
    const isOver = isOverShare || this.#open.size >= this.#limits.total;
    if (isOver && !this.#makeRoom(isOverShare ? network : undefined)) return void socket.destroy();
    this.#open.set(name, { socket, network, requests: new Set(), isAuthenticated: false });
    this.#counts.set(network, this.#countOf(network) + 1);
    socket.once('close', () => this.#remove(name, socket));
  }

  /** Closes the oldest connection that waits for its client, if given one of that network. @returns whether there was one. */
  #makeRoom(network: string | undefined): boolean {
    let spare: [string, Connection] | undefined;
    for (const entry of this.#open) {
      const [, { requests, isAuthenticated, network: own }] = entry;
      if (network !== undefined && own !== network) continue;
      // A request whose body is still to come waits for its client too.
      const isWaiting = [...requests].every(({ complete }) => !complete && !isAuthenticated);
      if (!isWaiting) continue;
      spare ??= entry;
      if (isAuthenticated) continue;
      spare = entry;
      break;
    }
    if (!spare) return false;
    const [name, { socket }] = spare;
    socket.destroy();
    // The socket's close event comes later.
    this.#remove(name, socket);
    return true;
  }

  #remove(name: string, socket: Socket): void {
    const connection = this.#open.get(name);
    if (connection?.socket !== socket) return;
    this.#open.delete(name);
    const left = this.#countOf(connection.network) - 1;
    if (left > 0) this.#counts.set(connection.network, left);
    else this.#counts.delete(connection.network);
  }

  #countOf(network: string): number {
    return this.#counts.get(network) ?? 0;
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** How many requests a client may pipeline: send before it has the responses to earlier ones. */
const MOST_PIPELINED = 100;

/**
 * Stops reading from a connection while too many of its requests wait for a response. Node itself only counts the bytes of
 * waiting responses, and a request that waits for the database has none.
 */
export function limitPipelining(most = MOST_PIPELINED): (response: ServerResponse) => void {
  const unanswered = new WeakMap<Socket, number>();
  return (response) => {
    const { socket } = response.req;
    const count = (): number => unanswered.get(socket) ?? 0;
    // Node resumes the socket itself at the end of a request, and to drop a body.
    if (!unanswered.has(socket)) socket.on('resume', () => void (count() >= most && socket.pause()));
    unanswered.set(socket, count() + 1);
    if (count() >= most) socket.pause();
    response.once('close', () => {
      unanswered.set(socket, count() - 1);
      if (count() === most - 1) socket.resume();
    });
  };
}

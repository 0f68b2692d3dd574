/**
 * The connections of a server: how many there may be, and which one goes when there are too many.
 *
 * Promise: connections that only stay open keep nobody out. One that has shown no valid key or session, and is waiting for its
 * client, makes room for the next one: the oldest of those, of its address when that has its share already.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { totalmem } from 'node:os';
import { clientNetwork } from '../web/client-address.ts';

/** The most memory that a connection takes while its client is silent, in bytes: 31 to 67 KB were measured. */
const EACH = 65_536;
/** The part of the memory that connections may take. */
const MEMORY_SHARE = 1 / 8;
const MOST = 4096;
/** The part of all connections that one address may have. */
const ADDRESS_SHARE = 1 / 4;

export interface ConnectionLimits {
  readonly total: number;
  /** The limit for one address (IPv6: /64). */
  readonly ofAddress: number;
}

/**
 * At most half of this process's descriptors, since the database, sshd's log and webhooks need some, and an eighth of the
 * memory.
 * @param servers that share them.
 */
export function connectionLimits(servers = 1): ConnectionLimits {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const descriptors = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity) / 2;
  // 0, or more than there is, without a limit of the control group.
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem());
  const total = Math.floor(Math.min(MOST, descriptors, (memory * MEMORY_SHARE) / EACH) / servers);
  return { total, ofAddress: Math.max(1, Math.floor(total * ADDRESS_SHARE)) };
}

interface Connection {
  readonly socket: Socket;
  readonly network: string;
  /** Requests that are not answered yet. */
  readonly requests: Set<IncomingMessage>;
  isAuthenticated: boolean;
}

export interface ConnectionsOptions {
  readonly limits: ConnectionLimits;
  /** Whether an address is that of a proxy, behind which there are many clients. */
  isProxy(address: string | undefined): boolean;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #isProxy: ConnectionsOptions['isProxy'];
  /** The oldest first. By address and port of the client: TLS and the requests above it have other sockets. */
  readonly #open = new Map<string, Connection>();
  /** How many each network has. */
  readonly #counts = new Map<string, number>();

  constructor({ limits, isProxy }: ConnectionsOptions) {
    this.#limits = limits;
    this.#isProxy = isProxy;
  }

  /** Comes before all else that is done with the server's connections. */
  watch(server: Server): void {
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
  }

  /** Notes that a request begins. */
  begins(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#open.get(nameOf(request.socket));
    if (!connection) return;
    connection.requests.add(request);
    response.once('close', () => connection.requests.delete(request));
  }

  /** Notes that a request had a valid key or session. */
  authenticated({ socket }: IncomingMessage): void {
    const connection = this.#open.get(nameOf(socket));
    if (connection) connection.isAuthenticated = true;
  }

  /** Ends those on which nothing was received yet, or all. */
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

  /** Ends the oldest that nobody misses: of that network, if one is given. @returns whether there was one. */
  #makeRoom(network: string | undefined): boolean {
    let spare: [string, Connection] | undefined;
    for (const entry of this.#open) {
      const [, { requests, isAuthenticated, network: own }] = entry;
      if (network !== undefined && own !== network) continue;
      // A request whose body does not come waits for its client, too.
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
    // Its own event comes later.
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

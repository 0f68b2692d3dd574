/** Receivers that are dead in four ways, each at an address of its own in 127.0.1.0/24. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';

/** How long a slow receiver takes for its 200, in ms: just in time (specification: 5 s). */
export const SLOW_MS = 4500;
const LISTEN = `
  const server = require('node:net').createServer();
  server.listen({ port: 0, host: '0.0.0.0', backlog: 1 }, () => console.log(server.address().port));
`;

/** `count` URLs (at most 254): refused, black hole, slow and silent ones in turn. */
export async function deadEndpoints(count: number): Promise<AsyncDisposable & { readonly urls: readonly string[] }> {
  await using parts = new AsyncDisposableStack();
  const hole = parts.use(await blackHole());
  const slow = parts.use(
    await listening(createHttp((_, response) => void setTimeout(() => response.writeHead(200).end(), SLOW_MS).unref())),
  );
  const silent = parts.use(await listening(createServer(() => undefined)));
  // Nothing listens on port 1.
  const ports = [1, hole.port, slow.port, silent.port];
  const owned = parts.move();
  return {
    urls: Array.from({ length: count }, (_, i) => `http://127.0.1.${i + 1}:${ports[i % ports.length]}/`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Endpoint extends AsyncDisposable {
  readonly port: number;
}

async function listening(server: Server): Promise<Endpoint> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
}

/**
 * A port whose connections are neither accepted nor refused: its process is stopped and its backlog full, so the kernel
 * drops what else wants to connect (listen(2)).
 */
async function blackHole(): Promise<Endpoint> {
  const child = spawn(process.execPath, ['-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const port = Number(line);
  child.kill('SIGSTOP');
  const fill: Socket[] = [];
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    fill.push(socket);
    if (await Promise.race([once(socket, 'connect').then(() => false), wait(300, true)])) break;
  }
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of fill) socket.destroy();
      await ended(child);
    },
  };
}

async function ended(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

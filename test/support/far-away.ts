/** A way to a port of this machine that takes time, like one to another continent. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface FarAway extends AsyncDisposable {
  readonly port: number;
}

/** Listens on a port of its own. Whatever goes to `port` through it arrives half a round trip later, and so does what comes back. */
export async function farAway(port: number, roundTripMs: number): Promise<FarAway> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      const later = (act: () => void): void => void setTimeout(act, roundTripMs / 2);
      from.on('data', (chunk) => later(() => to.destroyed || to.write(chunk)));
      from.on('close', () => later(() => to.destroy()));
      from.on('error', () => undefined);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

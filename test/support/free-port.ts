/**
 * A TCP port on loopback that is free now, and that no other test process gets while this one lives. It is outside the range
 * that the kernel draws clients' ports from, so no outgoing connection takes it before the server does.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type ListenOptions, type Server } from 'node:net';

const FIRST = 10_000;
const LAST = 65_535;

export async function freePort(): Promise<number> {
  const [low = 0, high = 0] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/).map(Number);
  const below = low - FIRST;
  if (below <= 0 && high >= LAST) throw new Error(`ip_local_port_range leaves no port from ${FIRST} on to the tests`);
  for (;;) {
    const port = below > 0 ? randomInt(FIRST, low) : randomInt(high + 1, LAST + 1);
    // An abstract socket is the claim: it ends with the process, and counts where the port counts, in the network namespace.
    const claim = await listening({ path: `\0berth-test-port-${port}` });
    claim?.unref();
    const server = claim && (await listening({ host: '127.0.0.1', port }));
    if (server === undefined) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

async function listening(where: ListenOptions): Promise<Server | undefined> {
  const server = createServer().listen(where);
  try {
    await once(server, 'listening');
    return server;
  } catch {
    return undefined;
  }
}

/** Connections that never log in, held open from a handful of addresses: everybody else still gets in. */
import assert from 'node:assert/strict';
import { connect as connectTo, type Socket } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { checkSshd } from '../../src/operating/doctor/checks/running.ts';
import { inNamespace } from '../../src/operating/doctor/processes.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, PASSWORD } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

/** Others that log in meanwhile, each from an address of its own, all at once. */
const OTHERS = 16;

const AT_ONCE = 64;

for (const [connections, addresses] of [
  [256, 3],
  [323, 5],
  [600, 8],
] as const) {
  test(`${connections} connections from ${addresses} addresses leave room for ${OTHERS} others`, async (t) => {
    using place = scratch();
    await using sshd = await startSshd(place);
    await using host = hostOf(sshd.paths);
    const row = directory({ max_connections: OTHERS });
    await host.apply(row);
    using flood = holding(sshd.port, addresses);
    // Together no more than sshd's queue of connections takes: what the kernel drops there has no answer for a minute.
    for (let sent = 0; sent < connections; sent += AT_ONCE) {
      flood.add(Math.min(AT_ONCE, connections - sent));
      await until('each has its answer', () => flood.answered() >= flood.sent(), 60);
    }
    t.diagnostic(`${flood.greeted()} of ${connections} held`);
    assert.ok(flood.greeted() > 0);

    await using stack = new AsyncDisposableStack();
    const logins = Array.from({ length: OTHERS }, async (_, i) => {
      const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
      stack.use(await connect({ ...login, localAddress: `127.0.2.${i + 1}` }));
    });
    const refused = (await Promise.allSettled(logins)).filter(({ status }) => status === 'rejected');
    assert.deepEqual(refused, []);
  });
}

test('when sshd closes new connections, berth doctor says so, and for how many it is', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  const verdicts = async () => (await checkSshd(sshd.config, systemClock())).map(({ verdict }) => verdict);
  assert.deepEqual(await verdicts(), ['ok']);
  using flood = holding(sshd.port, 10);
  for (let sent = 0; sent < 320; sent += AT_ONCE) {
    flood.add(AT_ONCE);
    await until('each has its answer', () => flood.answered() >= flood.sent(), 60);
  }
  const [crowd, listens] = await checkSshd(sshd.config, systemClock());
  assert.match(crowd?.text ?? '', /^3\d\d connections have not logged in yet, so sshd closes some new ones$/);
  assert.deepEqual([crowd?.verdict, listens?.verdict], ['warn', 'ok']);
});

test('an IPv6 network of one customer is one source; short RSA keys are refused', async () => {
  using place = scratch();
  await using sshd = await startSshd(place);
  const { stdout } = await inNamespace(sshd.config, '/usr/sbin/sshd', '-T', '-f', `${sshd.paths.sshd}/sshd_config`);
  assert.match(stdout, /^persourcenetblocksize 32:64$/m);
  assert.match(stdout, /^requiredrsasize 2048$/m);
});

/** Connections that wait for sshd's greeting and say nothing, until it is disposed of. */
function holding(port: number, addresses: number) {
  const sockets: Socket[] = [];
  const greeted = new Set<Socket>();
  const refused = new Set<Socket>();
  return {
    add(count: number): void {
      for (let i = 0; i < count; i++) {
        const localAddress = `127.0.1.${(sockets.length % addresses) + 1}`;
        const socket = connectTo({ host: '127.0.0.1', port, localAddress });
        sockets.push(socket);
        socket.on('data', (data) => (data.toString('latin1').startsWith('SSH-2.0-') ? greeted : refused).add(socket));
        socket.on('error', () => refused.add(socket));
        socket.on('close', () => greeted.has(socket) || refused.add(socket));
      }
    },
    sent: () => sockets.length,
    answered: () => greeted.size + refused.size,
    greeted: () => greeted.size,
    [Symbol.dispose]: () => sockets.forEach((socket) => socket.destroy()),
  };
}

/** Hundreds of wrong passwords from one address lock nobody out at another (openssh/sshd_config, its limits). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import ssh2 from 'ssh2';
import { TIMEOUT_SECONDS, until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { directory, hostOf, PASSWORD } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';

/** PAM lets each wait for two seconds: 1,000 of them take half a minute. */
const PASSWORDS = Number(process.env['WRONG_PASSWORDS'] ?? 300);
/** Tries in one connection, as sshd allows (MaxAuthTries). */
const TRIES = 6;
const AT_ONCE = 150;
/** How many log in meanwhile, at least. */
const LOGINS = 6;
const ATTACKER = '127.0.0.2';

test('others log in at once while one address sends wrong passwords, and sshd goes on', async (t) => {
  using place = scratch();
  await using sshd = await startSshd(place);
  await using host = hostOf(sshd.paths);
  const row = directory();
  await host.apply(row);
  const flood = { sent: 0, refused: 0 };
  const over = new AbortController();
  using flooding = new DisposableStack();
  flooding.defer(() => over.abort()); // a failure ends it too
  const attackers = Array.from({ length: AT_ONCE }, async () => {
    while (!over.signal.aborted) await attack(sshd.port, row.sftp_username, flood, over.signal);
  });
  const times: number[] = [];
  while (flood.sent < PASSWORDS || times.length < LOGINS) {
    const began = performance.now();
    await using connection = await connect({ port: sshd.port, username: row.sftp_username, password: PASSWORD });
    await connection.sftp();
    times.push(performance.now() - began);
    await wait(200);
  }
  over.abort();
  await Promise.all(attackers);
  t.diagnostic(
    `${times.length} logins during ${flood.sent} wrong passwords, ${flood.refused} connections hung up on; ms: median ${times.toSorted((a, b) => a - b)[times.length >> 1]?.toFixed()}, most ${Math.max(...times).toFixed()}`,
  );
  // sshd lets no more than 32 from one address try at once; the others of the 150 were disconnected.
  assert.ok(flood.refused > 0, 'one address got every place');
  // From OpenSSH 9.8 on, an address that went on failing waits for half a minute or more; before, it is let in again at once.
  const isPunished = /^PerSourcePenalties /m.test(readFileSync(join(sshd.paths.sshd, 'sshd_config'), 'utf8'));
  const expected = isPunished ? 'Not allowed at this time' : 'SSH-2.0-';
  await until(`the attacker reads ${expected}`, async () => (await greeting(sshd.port)).startsWith(expected));
  await using _other = await connect({ port: sshd.port, username: row.sftp_username, password: PASSWORD });
});

/** What sshd says first to the attacker's address. */
async function greeting(port: number): Promise<string> {
  const socket = connectTo({ host: '127.0.0.1', port, localAddress: ATTACKER });
  const [text] = (await once(socket, 'data', { signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1000) })) as [Buffer];
  socket.destroy();
  return text.toString('latin1');
}

/** One connection of the attacker that tries wrong passwords until sshd hangs up. */
function attack(
  port: number,
  username: string,
  flood: { sent: number; refused: number },
  signal: AbortSignal,
): Promise<void> {
  const client = new ssh2.Client();
  const { promise, resolve } = Promise.withResolvers<void>();
  let tries = 0;
  client.on('error', () => undefined);
  client.on('close', () => {
    if (tries === 0) flood.refused += 1;
    setTimeout(resolve, tries === 0 ? 50 : 0);
  });
  signal.addEventListener('abort', () => client.destroy());
  client.connect({
    host: '127.0.0.1',
    port,
    localAddress: ATTACKER,
    username,
    authHandler: (methods, _partial, next) => {
      if (methods === null) return next({ type: 'none', username });
      if (tries === TRIES - 1) return next(false as never); // no more methods; its types do not know
      tries += 1;
      flood.sent += 1;
      next({ type: 'password', username, password: `wrong ${flood.sent}` });
    },
  });
  return promise;
}

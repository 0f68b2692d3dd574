/** What the service says to systemd, by the socket that `packaging/systemd/notifying` leaves it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

/** Node has no datagram sockets: perl stands for systemd, and prints each word that arrives. */
const SYSTEMD = `use Socket; socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die; bind($s, pack_sockaddr_un($ARGV[0])) or die;
  $| = 1; print "bound\\n"; my $word; while (defined recv($s, $word, 99, 0)) { print "$word\\n"; last if $word =~ /STOPPING/ }`;
const NOTIFYING = fileURLToPath(new URL('../../packaging/systemd/notifying', import.meta.url));
const SERVICE = `import { createLog } from ${JSON.stringify(new URL('../../src/log.ts', import.meta.url).href)};
  import { createSystemd } from ${JSON.stringify(new URL('../../src/systemd.ts', import.meta.url).href)};
  const systemd = createSystemd(process.env, createLog('error'));
  systemd.ready();
  process.stdin.once('end', systemd.ending).resume();`;

test('ready once, alive again and again, ending at the end', async () => {
  using place = scratch();
  const socket = join(place.dir, 'notify');
  const systemd = spawn('perl', ['-e', SYSTEMD, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  const over = once(systemd, 'close');
  let heard = '';
  systemd.stdout.setEncoding('utf8').on('data', (words: string) => (heard += words));
  await until('there is a socket', () => heard === 'bound\n');
  const service = spawn(NOTIFYING, [process.execPath, '--input-type=module', '-e', SERVICE], {
    env: { PATH: process.env['PATH'], NOTIFY_SOCKET: socket, WATCHDOG_USEC: '60000' },
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  await until('it has said that it is alive, and again', () => heard.split('WATCHDOG').length > 2);
  service.stdin?.end();
  assert.deepEqual(await once(service, 'exit'), [0, null]);
  await over;
  const words = heard.trim().split('\n');
  assert.deepEqual(words.splice(0, 2), ['bound', 'READY=1']);
  assert.equal(words.at(-1), 'STOPPING=1');
  const alive = words.slice(0, -1);
  assert.ok(
    alive.every((word) => word === 'WATCHDOG=1'),
    words.join(' '),
  );
});

test('without systemd nothing happens', async () => {
  const service = spawn(NOTIFYING, [process.execPath, '--input-type=module', '-e', SERVICE], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  const said = text(service.stderr);
  assert.deepEqual(await once(service, 'exit'), [0, null]);
  assert.equal(await said, '');
});

/** What the service says to systemd, by the socket that `packaging/systemd/notifying` leaves it, and in the journal. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';
import { startServe } from '../../support/serve-process.ts';

/** Node has no datagram sockets: perl stands for systemd, and prints each word that arrives. */
const SYSTEMD = `use Socket; socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die; bind($s, pack_sockaddr_un($ARGV[0])) or die;
  $| = 1; print "bound\\n"; my $word; while (defined recv($s, $word, 99, 0)) { print "$word\\n"; last if $word =~ /STOPPING/ }`;
const NOTIFYING = fileURLToPath(new URL('../../../packaging/systemd/notifying', import.meta.url));
const SERVICE = `import { createLog } from ${JSON.stringify(new URL('../../../src/foundation/base/log.ts', import.meta.url).href)};
  import { createSystemd } from ${JSON.stringify(new URL('../../../src/service/serve.ts', import.meta.url).href)};
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

/** Writes a line of each level. */
const LINES = `import { openLog } from ${JSON.stringify(new URL('../../../src/foundation/base/log.ts', import.meta.url).href)};
  const log = openLog({ logLevel: 'trace', logFormat: process.argv[1] }, process.env);
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) log[level]({ n: 1 }, level);
  log.error({ err: new Error('gone') }, 'failed');`;
const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

/** What a program writes to a standard error that systemd says is the journal, or another file. */
function linesOf(journal: string, ...args: string[]): string[] {
  const script = `exec 2>&1 >/dev/null; JOURNAL_STREAM=${journal} BERTH_API_PORT=x exec "$@"`;
  const { stdout } = spawnSync('sh', ['-c', script, 'sh', process.execPath, ...args], { encoding: 'utf8' });
  return stdout.trim().split('\n');
}

test('in the journal each line has its priority, and an error that ends a command too; elsewhere there is none', () => {
  const asked = (format: string): string[] => ['--input-type=module', '-e', LINES, format];
  const log = asked('auto');
  const here = '$(stat --dereference --format %d:%i /proc/self/fd/2)';
  const lines = linesOf(here, ...log);
  const priorities = lines.map((line) => /^<(\d)>/.exec(line)?.[1]);
  assert.deepEqual(priorities.slice(0, 7), ['7', '7', '6', '4', '3', '2', '3']);
  assert.deepEqual(lines.slice(2, 4), ['<6>INFO  info n=1', '<4>WARN  warn n=1']);
  assert.ok(
    lines.length > 8 && lines.slice(7).every((line) => line.startsWith('<3>    ')),
    'each line of a stack has it',
  );
  const asJson = linesOf(here, ...asked('json'));
  assert.deepEqual(
    asJson.map((line) => /^<(\d)>\{"level":/.exec(line)?.[1]),
    ['7', '7', '6', '4', '3', '2', '3'],
  );
  assert.match(
    linesOf(here, MAIN, 'serve').join('\n'),
    /^<3>berth: configuration: BERTH_API_PORT must be a port number[^\n]*$/,
  );
  for (const elsewhere of ['1:1', '']) {
    assert.ok(linesOf(elsewhere, ...log).every((line) => line.startsWith('{"level":')));
    assert.match(linesOf(elsewhere, ...asked('text'))[2] ?? '', /^[\d:.]+ INFO  info n=1$/);
    assert.match(linesOf(elsewhere, MAIN, 'serve').join('\n'), /^berth: configuration: BERTH_API_PORT/);
  }
});

test('ps, top and systemctl call the service by its name', async () => {
  using place = scratch();
  const port = await freePort();
  const config = { ...place.config, api: { host: '127.0.0.1', port } };
  await using serve = await startServe(config, { ...place.environment, BERTH_API_PORT: String(port) });
  assert.equal(readFileSync(`/proc/${serve.pid}/comm`, 'utf8'), 'berth serve\n');
});

/**
 * sshd's log where no systemd keeps it, as in scripts/start and the container: scripts/lib/sshd-log hears sshd's syslog in its namespace,
 * and Activity, Home and `berth explain` have what it says. No client can write a line of its own.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { sshdLogOf } from '../../src/operating/reports/sshd-log-file.ts';
import type { LogLine } from '../../src/operating/reports/sshd-log.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { signedIn } from '../support/dashboard.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { rawSftp } from '../support/raw-sftp.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';

const file = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));

/** What runs until the end of the test. */
function running(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): AsyncDisposable & { kill(): Promise<void> } {
  const child = spawn(command, args, { stdio: 'ignore', env });
  const end = async (how: NodeJS.Signals): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill(how);
    await once(child, 'exit');
  };
  return { kill: () => end('SIGKILL'), [Symbol.asyncDispose]: () => end('SIGTERM') };
}

/** Its folders have been made by `berth prepare` in scripts/start. */
function keptLog({ config, environment }: Scratch) {
  for (const folder of [config.stateDir, config.runtimeDir]) mkdirSync(folder, { recursive: true, mode: 0o755 });
  return {
    ...running(file('scripts/lib/sshd-log'), [], { ...process.env, ...environment }),
    socket: join(config.runtimeDir, 'sshd-log/socket'),
    current: join(config.stateDir, 'sshd-log/current'),
  };
}

/** As supervise.sh starts it, in place of the one that tests have. */
async function loggedSshd({ sshd }: TestBerth, { socket, current }: { socket: string; current: string }) {
  await until('the log listens', () => existsSync(socket));
  await sshd.stop();
  const config = join(sshd.paths.sshd, 'sshd_config');
  const args = [
    '--log',
    socket,
    sshd.paths.sshd,
    '/usr/sbin/sshd',
    '-D',
    '-f',
    config,
    '-o',
    'ListenAddress=127.0.0.1',
  ];
  const logged = running('sh', [file('openssh/in-namespace'), ...args]);
  await until(
    'sshd listens',
    () => existsSync(current) && readFileSync(current, 'utf8').includes('Server listening on'),
  );
  return logged;
}

const machineLog = () => lstatSync('/dev/log', { throwIfNoEntry: false })?.ino;

test('refusals with their reasons are on the pages and in explain, none is forged, and the machine has its own log', async () => {
  using place = scratch({ BERTH_DASHBOARD: 'on' });
  await using log = keptLog(place);
  const before = machineLog();
  await using berth = await startBerth(place);
  await using _sshd = await loggedSshd(berth, log);
  const directory = await berth.directory({ max_connections: 1 });
  const { login, username, id } = directory;
  assert.equal((await sftp(place.dir, { ...login, password: 'wrong' }, ['pwd'])).code, 255);
  {
    await using open = await berth.connect(directory);
    await (await rawSftp(open)).put('x', 'data');
    await assert.rejects(berth.connect(directory));
    const at = (path: string) => lstatSync(path, { throwIfNoEntry: false });
    assert.notEqual(
      at(join(berth.sshd.paths.jail(username), 'dev/log'))?.ino,
      statSync(log.socket).ino,
      'jails have another',
    );
  }
  await until('the upload is known', async () => (await berth.uploads(directory)).length === 1);
  // As a user name, and as the words of a disconnect: whole lines of the syslog and of the file, in the name of each of the programs.
  const lie = `Failed password for ${username} from 6.6.6.6 port 1 ssh2`;
  const refusal = `Login of ${username} from 6.6.6.6 refused: suspended`;
  for (const text of [
    `x\n${lie}\ny`,
    `x\0<38>sshd[1]: ${lie}`,
    `x\n<38>Nov 23 10:00:00 berth-sshd[1]: ${refusal}\n`,
    `x\n2026-11-23T10:00:00.000000Z berth-sshd[1]: ${refusal}\ny`,
    refusal,
    `${username} from 6.6.6.6 port 1 ssh2`,
  ])
    await assert.rejects(connect({ ...login, username: text }));
  await until('all is written', () => readFileSync(log.current, 'utf8').includes(String.raw`x\\n2026-11-23`));
  const written = readFileSync(log.current, 'utf8').split('\n').slice(0, -1);
  for (const line of written)
    assert.match(line, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (?:sshd|sshd-session|berth-sshd)\[\d+\]: [ -~]+$/);
  const refused = written.filter((line) => line.includes(' berth-sshd['));
  assert.deepEqual(
    refused.map((line) => line.replace(/^.*?: /, '')),
    [`Login of ${username} from 127.0.0.1 refused: too many connections`],
  );

  const explained = await runHere(place.environment, 'explain', username, '--json');
  assert.equal(explained.status, 0, explained.stderr);
  const { events, notes } = JSON.parse(explained.stdout) as {
    events: { kind: string; address: string; text: string }[];
    notes: string[];
  };
  const reported = events
    .filter(({ kind }) => kind === 'refused' || kind === 'login')
    .map(({ kind, address, text }) => `${kind} ${address} ${text}`);
  const expected = [
    'refused 127.0.0.1 Customer failed to log in: wrong password',
    'login 127.0.0.1 Customer logged in by password',
    'refused 127.0.0.1 Customer failed to log in: right password, but too many connections',
  ];
  assert.deepEqual(reported, expected);
  assert.ok(
    notes.every((note) => !note.includes('missing')),
    notes.join('; '),
  );
  using user = await signedIn({ config: berth.config, port: berth.service().dashboardPort ?? 0 }, berth.accountId);
  const { text } = await user.get(`/dashboard/directories/${id}/activity`);
  assert.match(text, /wrong password/);
  assert.doesNotMatch(text, /Refused logins are missing|6\.6\.6\.6/);

  for (const path of [log.socket, log.current]) assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(join(log.socket, '..')).mode & 0o777, 0o700);
  const asNobody = [
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
    'logger',
    '--socket-errors=on',
    '--socket',
    log.socket,
    'x',
  ];
  assert.notEqual(spawnSync('setpriv', asNobody).status, 0);
  assert.equal(machineLog(), before);
});

test('it is read on after the file was full and after its keeper was killed; sshd waits for neither', async () => {
  using place = scratch();
  const first = keptLog(place);
  await using berth = await startBerth(place);
  await using _sshd = await loggedSshd(berth, first);
  const { login } = await berth.directory();
  const wrong = async (): Promise<void> =>
    assert.equal((await sftp(place.dir, { ...login, password: 'wrong' }, ['pwd'])).code, 255);
  const heard: LogLine[] = [];
  const stopping = new AbortController();
  const following = (async () => {
    for await (const line of sshdLogOf(berth.config).linesSince(0, stopping.signal)) heard.push(line);
  })();
  const failures = (): number => heard.filter(({ message }) => message.startsWith('Failed password')).length;
  await wrong();
  await until('the first is heard', () => failures() === 1);
  await first.kill();
  await wrong();
  await using _second = keptLog(place);
  await until(
    'the new one listens',
    () =>
      spawnSync('logger', ['--socket-errors=on', '--socket', first.socket, '-t', 'sshd', '--id=1', 'on again'])
        .status === 0,
  );
  await wrong();
  await until('what comes later is heard', () => failures() === 2);
  renameSync(first.current, join(first.current, '../previous'));
  writeFileSync(
    first.current,
    '2026-11-23T10:00:00.000000Z sshd[7]: Failed password for x from 192.0.2.1 port 7 ssh2\n',
  );
  await until('the next file is heard', () => failures() === 3);
  stopping.abort();
  await following;
  const found = await sshdLogOf(berth.config).linesNaming(login.username, systemClock().now() - 60e6);
  assert.equal(found?.filter(({ message }) => message.startsWith('Failed password')).length, 2);
});

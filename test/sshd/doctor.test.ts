/** `berth doctor`: reports nothing about a healthy berth, and names each problem with its remedy. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Clock, DAY, systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { sharedAccount } from '../../src/operating/doctor/checks/directories.ts';
import { runDoctor } from '../../src/operating/doctor/run.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { sshdCheck } from '../../src/machine/sftp/sshd-listener.ts';
import { startBerth } from '../support/berth.ts';
import { byHand, numberByHand } from '../support/by-hand.ts';
import { startCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { onPostgres, urlOf } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { runSshd } from '../support/sshd.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

const shared = sharedBerth({ BERTH_API_PORT: String(await freePort()) });

/** Checks of the machine that runs the tests, which need not be well. */
const OF_THE_MACHINE = ['disk', 'limits', 'clock'];

interface Line {
  readonly check: string;
  readonly verdict: string;
  readonly text: string;
  readonly remedy: string | null;
}

async function ask(
  config: Config,
  options: { login?: boolean; clock?: Clock; environment?: Record<string, string> } = {},
): Promise<{ status: number; lines: Line[] }> {
  let text = '';
  const print = (line: string): void => void (text += line);
  const settings = { login: false, clock: systemClock(), ...options };
  const status = await runDoctor({
    config: () => config,
    environment: {},
    json: true,
    print,
    stop: new AbortController().signal,
    ...settings,
  });
  return { status, lines: JSON.parse(text) as Line[] };
}

/** An RSA key of 1024 bits, as a berth before took it. */
function makeShortKey(dir: string): string {
  const file = join(dir, 'short');
  spawnSync('ssh-keygen', ['-q', '-t', 'rsa', '-b', '1024', '-N', '', '-f', file]);
  return readFileSync(`${file}.pub`, 'utf8').split(' ').slice(0, 2).join(' ');
}

const problems = (lines: readonly Line[]): Line[] =>
  lines.filter(({ check, verdict }) => verdict !== 'ok' && !OF_THE_MACHINE.includes(check));

/** How many rows there are of what a doctor that logs in makes. */
function countsIn(config: Config): string {
  const tables = ['directories', 'api_keys', 'files', 'accounts', 'audit', 'transfers'];
  return tables.map((table) => numberByHand(config, `select count(*) from ${table}`)).join();
}

/** Whether changes of directories are still to be confirmed: until then serve repairs what the test breaks. */
function isSettled(config: Config): boolean {
  return numberByHand(config, 'select count(*) from unapplied') === 0;
}

test('a doctor that is interrupted while it logs in leaves nothing', async () => {
  await using berth = await shared();
  const { config, place } = berth;
  const before = countsIn(config);
  const directories = (): number => numberByHand(config, 'select count(*) from directories');
  const others = directories();
  const environment = { ...place.environment, BERTH_SFTP_PORT: String(config.sftp.port) };
  const doctor = startCommand(environment, ['doctor', '--login']);
  const ended = once(doctor, 'close') as Promise<[number]>;
  doctor.stdout.resume();
  doctor.stderr.resume();
  await until('it is at work', () => directories() > others);
  doctor.kill('SIGINT');
  assert.equal((await ended)[0], 130);
  assert.equal(countsIn(config), before);
});

test('a healthy berth has nothing to report, a login included; a broken one is described', async () => {
  using place = scratch({ BERTH_API_PORT: String(await freePort()) });
  await using berth = await startBerth(place);
  const { config, sshd } = berth;
  const { paths } = sshd;
  const { username } = await berth.directory();
  await berth.service().covered;
  const before = countsIn(config);
  await until('all changes of directories are confirmed', () => isSettled(config));
  const well = await ask(config, { login: true });
  assert.deepEqual(problems(well.lines), []);
  assert.deepEqual(
    well.lines.filter(({ check }) => check === 'login').map(({ verdict }) => verdict),
    ['ok'],
  );
  assert.equal(countsIn(config), before, 'the temporary directory is gone completely');
  assert.deepEqual(
    readdirSync(config.stateDir).filter((name) => name.startsWith('doctor-')),
    [],
  );

  const write = (statement: string): void => byHand(config, statement);
  const jail = paths.jail(username);
  const record = join(paths.userdb, 'nobodys-abcdefgh.user');
  const [admit, keys] = [join(paths.sshd, 'admit'), join(paths.sshd, 'authorized-keys')];
  const pam = join(paths.sshd, 'etc', 'pam.d', 'sshd');
  const stranger = paths.jail('lost-abcdefgh');
  const delivery = `(id, directory_id, account_id, url, destination, body, state, attempts, inserted_at, due_at)
    values ('x', 'd', 'a', 'http://192.0.2.1', 'z', '', 'running', 4, 0, 0)`;
  const shortKey = makeShortKey(place.dir);
  type Breakage = readonly [breakIt: () => void, repair: () => void, says: RegExp];
  const ofTheFile: Breakage = [
    () => chmodSync(config.databaseFile, 0o644),
    () => chmodSync(config.databaseFile, 0o600),
    /^fail database: others can read/,
  ];
  const breakages: readonly Breakage[] = [
    ...(onPostgres ? [] : [ofTheFile]),
    [() => chmodSync(admit, 0o777), () => chmodSync(admit, 0o755), /^fail sshd files: .*admit is owned by 0, mode 777/],
    [
      () => rmSync(keys),
      () => writeFileSync(keys, '', { mode: 0o755 }),
      /^fail sshd files: .*authorized-keys is missing/,
    ],
    [() => chownSync(pam, 1000, 0), () => chownSync(pam, 0, 0), /^fail sshd files: .*pam.d.sshd is owned by 1000/],
    [
      () => chmodSync(paths.jails, 0o777),
      () => chmodSync(paths.jails, 0o711),
      /^fail folders: .*can be written to by others/,
    ],
    [
      () => chmodSync(config.stateDir, 0o700),
      () => chmodSync(config.stateDir, 0o755),
      /^fail folders: no login by key works: .*may not enter \S+state$/,
    ],
    [
      () => chmodSync(jail, 0o777),
      () => chmodSync(jail, 0o755),
      /^fail directories: wrong owner or mode of the jail of acme/,
    ],
    [
      () => write(`update directories set auth_mode = 'both', public_key = '${shortKey}'`),
      () => write("update directories set auth_mode = 'password', public_key = null"),
      /^fail directories: the API now refuses RSA keys such as that of acme/,
    ],
    [
      () => mkdirSync(stranger),
      () => rmSync(stranger, { recursive: true }),
      /^warn directories: no directory has the jail lost-abcdefgh/,
    ],
    [
      () => writeFileSync(record, '{}'),
      () => rmSync(record),
      /^fail directories: can log in, though no directory has that user: nobodys/,
    ],
    [
      () => write("insert into kysely_migration values ('999-x', '2030')"),
      () => write("delete from kysely_migration where name = '999-x'"),
      /^fail database: .*newer berth \(999-x\)/,
    ],
    [
      () => write(`insert into deliveries ${delivery}`),
      () => write("delete from deliveries where id = 'x'"),
      /^fail deliveries: 1 deliveries are stuck/,
    ],
    [
      () => chmodSync(config.tls.key, 0o644),
      () => chmodSync(config.tls.key, 0o600),
      /^fail certificate: everybody can read/,
    ],
  ];
  const isSshdUp = sshdCheck(paths, config.sftp.port);
  assert.equal(isSshdUp(), true);
  // A running one would repair the delivery.
  await berth.stop();
  for (const [breakIt] of breakages) breakIt();
  const broken = await ask(config);
  for (const [, repair] of breakages) repair();
  const shown = problems(broken.lines).map(({ verdict, check, text }) => `${verdict} ${check}: ${text}`);
  for (const [, , says] of breakages)
    assert.ok(
      shown.some((line) => says.test(line)),
      `${says}\n${shown.join('\n')}`,
    );
  assert.ok(problems(broken.lines).every(({ remedy }) => remedy !== null));

  await sshd.stop();
  assert.equal(isSshdUp(), false);
  using other = scratch();
  {
    const intruder = { ...other.config, sftp: config.sftp };
    await prepareSshd(intruder, createLog('silent'));
    await using _taken = await runSshd(intruder);
    assert.equal(isSshdUp(), false, 'the port is taken by another sshd');
    const { lines } = await ask(config);
    assert.match(
      lines.find(({ check }) => check === 'sshd')?.text ?? '',
      /^another sshd answers on port \d+: its host keys are not those of berth$/,
    );
  }
  const down = await ask(config, { clock: { now: () => systemClock().now() + 5000 * DAY } });
  assert.equal(down.status, 2);
  const said = problems(down.lines)
    .map(({ check, text }) => `${check}: ${text}`)
    .join('\n');
  assert.match(said, /^serve: berth serve does not run$/m);
  assert.match(said, /^sshd: no sshd answers on port \d+/m);
  assert.match(said, /^certificate: .*expired/m);
  assert.match(said, /^backups: there is no backup$/m);
  // The nodes that share the database see it, too.
  if (onPostgres) assert.match(said, /^nodes: the node \S+ is away: /m);
  assert.equal(problems(down.lines).length, onPostgres ? 5 : 4, said);

  const damaged = await ask(onPostgres ? { ...config, database: urlOf('nowhere') } : damagedFile(config));
  assert.deepEqual(
    new Set(damaged.lines.map(({ check }) => check)),
    new Set(well.lines.map(({ check }) => check).filter((check) => check !== 'login')),
    'every check looks all the same',
  );
  assert.ok(damaged.lines.some(({ check, verdict }) => check === 'database' && verdict === 'fail'));
});

function damagedFile(config: Config): Config {
  const fd = openSync(config.databaseFile, 'r+');
  writeSync(fd, Buffer.alloc(8192, 'x'), 0, 8192, 0);
  closeSync(fd);
  return config;
}

test('things that go wrong over the years: a typo in a setting, the demo of a trial, an account of the machine, a new name', async () => {
  await using berth = await shared();
  const { config } = berth;
  const { username } = await berth.directory();
  const uid = numberByHand(config, `select uid from directories where sftp_username = '${username}'`);
  writeFileSync(join(config.stateDir, 'demo-key'), 'brt_live_x');
  const renamed = { ...config, tls: { ...config.tls, name: 'sftp.elsewhere.example' } };
  const environment = { BERTH_API_PROT: '9443', BERTH_API_PORT: '8443', BERTH_NOTIFY_FD: '3' };
  const { lines } = await ask(renamed, { environment });
  const said = problems(lines).map(({ verdict, check, text, remedy }) => `${verdict} ${check}: ${text} -> ${remedy}`);
  for (const expected of [
    /^fail settings: BERTH_API_PROT is not a setting and has no effect -> correct or remove it in .*berth\.env, then: /,
    /^warn trial: the account "Demo" of scripts.start has an admin key in/,
    /^warn certificate: .* does not name sftp\.elsewhere\.example: it is for .* -> .*restart berth: it makes another/,
  ]) {
    assert.ok(
      said.some((line) => expected.test(line)),
      `${expected}\n${said.join('\n')}`,
    );
  }
  assert.equal(said.length, 3, said.join('\n'));
  // In a copy of /etc/passwd: that of this machine is left alone.
  for (const [entry, what] of [
    [`ann:x:${uid}:100::/:/bin/sh`, `the machine's account ann has the UID ${uid} of the SFTP user ${username}`],
    [
      `${username}:x:1234:100::/:/bin/sh`,
      `the machine's account ${username} has the name of the SFTP user ${username}`,
    ],
  ] as const) {
    const finding = await sharedAccount(config, `root:x:0:0::/:/bin/sh\n${entry}\n`);
    assert.equal(finding?.text, what);
  }
  assert.equal(await sharedAccount(config, 'root:x:0:0::/:/bin/sh\n'), undefined);
});

test('the login knows our host keys on port 22, too, which OpenSSH looks up without the port', () => {
  const child = fileURLToPath(new URL('port-22-child.ts', import.meta.url));
  const script = 'ip link set lo up && exec "$@"';
  const { stdout, stderr } = spawnSync('unshare', ['--net', 'sh', '-c', script, 'sh', process.execPath, child], {
    encoding: 'utf8',
  });
  assert.match(stdout, /Permission denied/, stderr);
});

test('the certificate’s age is judged by the clock', async () => {
  await using berth = await shared();
  const { now } = systemClock();
  const at = async (days: number) => {
    const { lines } = await ask(berth.config, { clock: { now: () => now() + days * DAY } });
    const line = lines.find(({ check }) => check === 'certificate');
    return [line?.verdict, /expire[sd] .*$|valid for/.exec(line?.text ?? '')?.[0]];
  };
  assert.deepEqual(await at(0), ['ok', 'valid for']);
  assert.deepEqual(await at(3640), ['warn', 'expires in 9 days']);
  assert.deepEqual(await at(3652), ['fail', 'expired 3 days ago']);
});

test('where nothing is set up, the command says so line by line with status 2; a wrong configuration too', () => {
  using place = scratch(onPostgres ? { BERTH_DATABASE_URL: urlOf('nowhere') } : {});
  const doctor = (environment: Record<string, string>) =>
    spawnSync(process.execPath, [MAIN, 'doctor'], {
      env: { ...nodeEnvironment, ...place.environment, ...environment },
      encoding: 'utf8',
    });
  const bare = doctor({});
  assert.equal(bare.status, 2);
  assert.equal(bare.stderr, '');
  assert.match(
    bare.stdout,
    onPostgres
      ? /^fail {2}database {6}.*cannot be used: database "nowhere" does not exist .* -> /m
      : /^fail {2}database {6}\S+ is missing -> start berth to create one, or: berth restore FILE$/m,
  );
  for (const line of bare.stdout.trim().split('\n')) assert.match(line, /^(?:ok|warn|fail) +\S/);
  const wrong = doctor({ BERTH_API_PORT: 'x' });
  assert.equal(wrong.status, 2);
  assert.match(wrong.stdout, /^fail {2}configuration {2}.*BERTH_API_PORT must be a port number/);
});

test('a doctor that is stopped ends after the check that is running', async () => {
  using place = scratch();
  const stop = new AbortController();
  const lines: string[] = [];
  const print = (line: string): void => {
    lines.push(line);
    stop.abort();
  };
  const options = { config: () => place.config, environment: {}, clock: systemClock(), print, stop: stop.signal };
  await assert.rejects(runDoctor(options), { name: 'AbortError' });
  assert.equal(lines.length, 1);
});

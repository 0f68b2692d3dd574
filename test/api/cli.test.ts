/** The commands as an operator runs them: their output, their exit statuses, and that they leave nothing half done. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isWellFormedKey } from '../../src/rules/api-keys/authenticate.ts';
import { runCommand, runHere, startCommand } from '../support/command-line.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

import assert from 'node:assert/strict';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

const berth = (place: Scratch, ...args: string[]) => runHere(place.environment, ...args);

async function json(place: Scratch, ...args: string[]): Promise<Record<string, unknown>> {
  const { status, stdout, stderr } = await berth(place, ...args, '--json');
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as Record<string, unknown>;
}

test('every command prints its exact JSON', async () => {
  using place = scratch();
  const account = await json(place, 'account', 'create', 'Acme', '--plan', 'business');
  assert.deepEqual(Object.keys(account), ['id', 'name', 'plan']);
  const id = String(account['id']);
  assert.deepEqual(await json(place, 'account', 'list'), [account]);
  assert.deepEqual(await json(place, 'account', 'set-plan', id, 'pro'), { ...account, plan: 'pro' });

  const key = await json(place, 'key', 'create', id, '--role', 'member', '--name', 'import');
  assert.deepEqual(Object.keys(key), ['id', 'account_id', 'role', 'key']);
  assert.deepEqual([key['account_id'], key['role']], [id, 'member']);
  assert.ok(isWellFormedKey(String(key['key']), 'live'));
  const listed = (await berth(place, 'key', 'list', id, '--json')).stdout;
  assert.ok(!listed.includes(String(key['key'])), 'it is shown once');
  const [row] = JSON.parse(listed) as Record<string, unknown>[];
  assert.deepEqual([row?.['id'], row?.['name'], row?.['revoked_at']], [key['id'], 'import', null]);
  const revoked = await json(place, 'key', 'revoke', String(key['id']));
  assert.equal(typeof revoked['revoked_at'], 'string');
});

test('people get tables, and keys of the deployment: test keys where it is a test', async () => {
  using place = scratch({ BERTH_ENVIRONMENT: 'test' });
  const id = String((await json(place, 'account', 'create', 'Acme', '--plan', 'free'))['id']);
  assert.match(
    (await berth(place, 'account', 'list')).stdout,
    new RegExp(`^ID +PLAN +CREATED +NAME\n${id} +free +\\S+Z +Acme\n$`),
  );
  const [key = ''] = (await berth(place, 'key', 'create', id)).stdout.split('\n');
  assert.ok(isWellFormedKey(key, 'test'));
  assert.match((await berth(place, 'key', 'list', id)).stdout, / admin +\S+Z +- +- +- +- +default\n$/);
});

test('errors are one line with status 1, wrong use has status 2, help has examples', async () => {
  using place = scratch();
  const failures = [
    ['account', 'create', ' ', '--plan', 'pro'],
    ['account', 'create', 'a\u001bb', '--plan', 'pro'],
    ['account', 'set-plan', 'nobody', 'pro'],
    ['key', 'create', 'nobody'],
    ['key', 'list', 'nobody'],
    ['key', 'revoke', 'nothing'],
  ];
  await Promise.all(
    failures.map(async (args) => {
      const { status, stdout, stderr } = await runHere(place.environment, ...args);
      assert.deepEqual([status, stdout], [1, ''], args.join(' '));
      assert.match(stderr, /^berth: [^\n]+\n$/);
    }),
  );
  const misuses = [
    ['nonsense'],
    ['account', 'create', 'x'],
    ['account', 'create', 'x', '--plan', 'gold'],
    ['key', 'create'],
  ];
  await Promise.all(
    misuses.map(async (args) => {
      const { status, stdout, stderr } = await runHere(place.environment, ...args);
      assert.deepEqual([status, stdout], [2, ''], args.join(' '));
      assert.match(stderr, /^error: /);
    }),
  );
  const help = await berth(place, 'key', 'create', '--help');
  assert.equal(help.status, 0);
  assert.match(help.stdout, /Example:\n {2}berth key create /);
});

test('--version is that of package.json; every command has examples, and the exit statuses are explained', async () => {
  using place = scratch();
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  assert.deepEqual(await runCommand(place.environment, '--version'), { status: 0, stdout: `${version}\n`, stderr: '' });
  const { stdout } = await berth(place, '--help');
  assert.match(stdout, /Exit status: 0 success; 1 an error/);
  const names = [...stdout.replace(/[^]*Commands:/, '').matchAll(/^ {2}([\w-]+)/gm)].map(([, name = '']) => name);
  await Promise.all(
    names
      .filter((name) => name !== 'help')
      .map(async (name) =>
        assert.match((await runHere(place.environment, name, '--help')).stdout, /Examples?:\n {2}\S/, name),
      ),
  );
});

test('when the reader leaves, a list ends quietly, and so does one that follows', async () => {
  using place = scratch();
  await berth(place, 'account', 'create', 'Acme', '--plan', 'pro');
  for (const args of [['account', 'list'], ['sessions', '--follow'], ['--help']]) {
    const child = startCommand(place.environment, args);
    child.stdout.destroy();
    const [stderr, end] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    assert.deepEqual([stderr, end], ['', [0, null]], args.join(' '));
  }
});

test('output that cannot be written is one line with status 1', () => {
  using place = scratch();
  const { status, stderr } = spawnSync('sh', ['-c', `exec "$0" "$1" --help >/dev/full`, process.execPath, MAIN], {
    env: { ...nodeEnvironment, ...place.environment },
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  assert.match(stderr, /^berth: cannot write the output: ENOSPC[^\n]*\n$/);
});

test('Ctrl-C or SIGTERM in a backup or a restore leaves everything as it was', sqliteOnly, async () => {
  using place = scratch();
  await berth(place, 'account', 'create', 'Acme', '--plan', 'pro');
  const [archive, bin] = [join(place.dir, 'backup.tar'), join(place.dir, 'bin')];
  assert.equal((await berth(place, 'backup', archive)).status, 0);
  mkdirSync(bin);
  // A restore first reads the settings in the archive, before it writes anything.
  const tar = '#!/bin/sh\ncase " $* " in *" --to-stdout "*) exit 2 ;; esac\nexec sleep 60\n';
  writeFileSync(join(bin, 'tar'), tar, { mode: 0o755 });
  const slow = { ...place.environment, PATH: `${bin}:${process.env['PATH']}` };
  const entries = () => readdirSync(place.dir, { recursive: true, encoding: 'utf8' }).toSorted();

  const interrupt = async (signal: 'SIGINT' | 'SIGTERM', status: number, busy: RegExp, ...args: string[]) => {
    const before = entries();
    const child = startCommand(slow, args);
    await until('it is at work', () => entries().some((name) => busy.test(name)));
    child.kill(signal);
    const [stderr, end] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    assert.deepEqual([stderr, end], ['berth: interrupted; nothing has changed\n', [status, null]]);
    assert.deepEqual(
      entries().filter((name) => !name.endsWith('serve.lock')),
      before.filter((name) => !name.endsWith('serve.lock')),
    );
  };
  const whole = readFileSync(archive);
  await interrupt('SIGINT', 130, /backup\.tar\.\d+\.new$/, 'backup', archive);
  assert.deepEqual(readFileSync(archive), whole);
  await interrupt('SIGTERM', 143, /\.berth-restore-\w+$/, 'restore', '--force', archive);
  assert.equal((JSON.parse((await berth(place, 'account', 'list', '--json')).stdout) as unknown[]).length, 1);
});

test('a Node older than package.json asks for is refused in one line', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    engines: { node: string };
  };
  const older = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '18.20.8' })`;
  const { status, stderr } = spawnSync(process.execPath, ['--import', older, MAIN, 'account', 'list'], {
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  const oldest = engines.node.match(/\d+/)?.[0];
  assert.match(stderr, new RegExp(`^berth: needs Node ${oldest} or newer; this is [^\n]+\n$`));
});

test('a database file that another folder would change is refused', async () => {
  using place = scratch();
  for (const url of ['sqlite:berth.db', 'sqlite://berth.db', 'file:./berth.db']) {
    const { status, stderr } = await runCommand({ ...place.environment, BERTH_DATABASE_URL: url }, 'account', 'list');
    assert.deepEqual([status, /BERTH_DATABASE_URL must have an absolute path/.test(stderr)], [1, true], stderr);
  }
});

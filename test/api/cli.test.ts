/** The commands for accounts and keys, run as they are by an operator. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isWellFormedKey } from '../../src/accounts/key-format.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function berth(place: Scratch, ...args: string[]): Promise<Outcome> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...process.env, ...place.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number]>,
  ]);
  return { status, stdout, stderr };
}

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
  assert.match((await berth(place, 'key', 'list', id)).stdout, / admin +\S+Z +- +- +default\n$/);
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
      const { status, stdout, stderr } = await berth(place, ...args);
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
      const { status, stdout, stderr } = await berth(place, ...args);
      assert.deepEqual([status, stdout], [2, ''], args.join(' '));
      assert.match(stderr, /^error: /);
    }),
  );
  const help = await berth(place, 'key', 'create', '--help');
  assert.equal(help.status, 0);
  assert.match(help.stdout, /Example:\n {2}berth key create /);
});

test('--version is the one of package.json; a Node older than it asks for is refused in one line', async () => {
  using place = scratch();
  const { version, engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
    engines: { node: string };
  };
  assert.deepEqual(await berth(place, '--version'), { status: 0, stdout: `${version}\n`, stderr: '' });

  const older = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '18.20.8' })`;
  const { status, stderr } = spawnSync(process.execPath, ['--import', older, MAIN, 'account', 'list'], {
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  const oldest = engines.node.match(/\d+/)?.[0];
  assert.match(stderr, new RegExp(`^berth: needs Node ${oldest} or newer; this is [^\n]+\n$`));
});

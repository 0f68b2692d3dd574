/** `berth directory …`, run as root runs it against a berth that is served: what it does, prints and leaves in the audit. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { operatorSocket } from '../../src/operator-socket.ts';
import { runCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type ServeProcess, startServe } from '../support/serve-process.ts';
import { keyPair } from '../support/sftp-user.ts';

const WHO = { SUDO_USER: 'alice' };

interface Place extends AsyncDisposable {
  readonly place: Scratch;
  readonly account: string;
  readonly serve: ServeProcess;
  /** Ends with status 0; what it printed. */
  berth(...args: string[]): Promise<string>;
  /** The same with `--json`. */
  json<T = Record<string, string>>(...args: string[]): Promise<T>;
  /** Ends with status 1; the error's line, without `berth: `. */
  refused(...args: string[]): Promise<string>;
  start(): Promise<ServeProcess>;
}

async function served(overrides: Record<string, string> = {}): Promise<Place> {
  await using parts = new AsyncDisposableStack();
  const port = await freePort();
  const ports = { BERTH_API_PORT: String(port), BERTH_SFTP_PORT: String(await freePort()) };
  const place = parts.use(scratch({ ...ports, ...overrides }));
  const run = (...args: string[]) => runCommand({ ...place.environment, ...WHO }, ...args);
  async function berth(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await run(...args);
    assert.equal(status, 0, `${args.join(' ')}: ${stderr}`);
    return stdout;
  }
  await berth('prepare');
  const { id: account } = JSON.parse(await berth('account', 'create', 'A', '--plan', 'starter', '--json')) as {
    id: string;
  };
  const start = async (): Promise<ServeProcess> => parts.use(await startServe(place.config, place.environment));
  const serve = await start();
  const owned = parts.move();
  return {
    place,
    account,
    serve,
    start: async () => owned.use(await startServe(place.config, place.environment)),
    berth,
    json: async <T>(...args: string[]) => JSON.parse(await berth(...args, '--json')) as T,
    async refused(...args) {
      const { status, stdout, stderr } = await run(...args);
      assert.deepEqual([status, stdout], [1, ''], `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, /^berth: .*\n$/m);
      return stderr.replace(/^berth: /m, '').trimEnd();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test('a directory from its creation to its end, with the audit naming who did it', async () => {
  await using at = await served();
  const { berth, json, account, place } = at;
  const key = keyPair(place.dir);
  const printed = await berth(
    'directory',
    'create',
    'Acme Corp',
    '--account',
    account,
    '--external-id',
    'cust-42',
    '--max-connections',
    '3',
    '--webhook',
    'https://example.com/hook',
    '--public-key',
    `${key.file}.pub`,
    '--metadata',
    '{"n":1.0}',
  );
  const username = /^username +(acme-corp-\w{8})$/m.exec(printed)?.[1] ?? '';
  assert.match(printed, /^password +\w{32} \(shown this once\)$/m);
  const { host, port } = place.config.sftp;
  assert.match(printed, new RegExp(`^connect +sftp -P ${port} ${username}@${host}$`, 'm'));
  assert.ok(existsSync(join(place.config.jailDir, username, 'files')), 'it is live');

  const names = [username, 'cust-42', 'acme-corp', 'Acme Corp'];
  const shown = await Promise.all(names.map((name) => json('directory', 'show', name)));
  const [first = {}] = shown;
  for (const each of shown) assert.deepEqual(each, first);
  assert.deepEqual(await json('directory', 'show', first['id'] ?? ''), first);
  assert.deepEqual(
    [first['auth_mode'], first['max_connections'], first['webhook_url']],
    ['both', 3, 'https://example.com/hook'],
  );
  assert.match(await berth('directory', 'show', 'cust-42', '--json'), /"metadata":\{"n":1\.0\}/);
  const text = await berth('directory', 'show', 'cust-42');
  assert.match(text, /^sftp_username +acme-corp-\w{8}$/m);
  assert.equal(text.includes(String(first['webhook_secret'])), false);
  assert.match(await berth('directory', 'webhook', 'show', 'cust-42'), /^webhook_secret +\S{32}$/m);
  assert.match(await berth('directory', 'list'), new RegExp(`${username} +both .* cust-42 +Acme Corp$`, 'm'));

  const changed = await json(
    'directory',
    'set',
    'cust-42',
    '--name',
    'Acme GmbH',
    '--external-id',
    '',
    '--auth-mode',
    'password',
  );
  assert.deepEqual([changed['name'], changed['external_id'], changed['auth_mode']], ['Acme GmbH', null, 'password']);
  assert.match(await berth('directory', 'webhook', 'set', username, ''), /^webhook_url +-$/m);
  assert.equal(await berth('directory', 'uploads', username, '--json'), '[]\n');
  const renewed = await berth('directory', 'password', username, '--yes');
  assert.match(renewed, /^password +\w{32} \(shown this once\)$/m);

  assert.match(await berth('directory', 'delete', username, '--yes'), new RegExp(`^Deleted ${username} `));
  assert.equal(existsSync(join(place.config.jailDir, username)), false);
  const audit = JSON.parse(await berth('audit', '--json')) as { action: string; key_id: string; route: string }[];
  assert.deepEqual(new Set(audit.map(({ key_id }) => key_id)), new Set(['operator:alice']));
  assert.deepEqual([audit[0]?.action, audit[0]?.route], ['create', 'POST /api/v1/directories']);
  assert.equal(audit.at(-1)?.action, 'delete');
  assert.match(await berth('audit'), / operator:alice /);
});

test('names that several directories have are listed; an id or a username is one alone', async () => {
  await using at = await served();
  const { json, refused, account } = at;
  const create = (name: string, ...more: string[]) =>
    json<{ id: string; sftp_username: string }>('directory', 'create', name, '--account', account, ...more);
  const first = await create('Acme');
  const second = await create('Acme');
  // Whatever a customer calls its own: an id and a username stay whose they are.
  const thief = await create(first.sftp_username, '--external-id', first.id);
  const said = await refused('directory', 'delete', 'Acme', '--yes');
  assert.match(said, /^2 directories are called "Acme": name one by its id or username$/m);
  for (const { id, sftp_username } of [first, second]) assert.ok(said.includes(id) && said.includes(sftp_username));
  assert.equal(said.includes(thief.id), false);
  for (const name of [first.id, first.sftp_username]) {
    assert.equal((await json('directory', 'show', name))['id'], first.id);
  }
  const other = await json<{ id: string }>('account', 'create', 'B', '--plan', 'free');
  assert.match(await refused('directory', 'show', first.id, '--account', other.id), /^there is no directory/);
  await json('directory', 'create', 'Acme', '--account', other.id);
  assert.equal((await json('directory', 'show', 'Acme', '--account', other.id))['slug'], 'acme');
  assert.match(await refused('directory', 'create', 'more', '--account', other.id), /^Directory limit reached/);
  assert.match(await refused('directory', 'create', 'more', '--account', 'nobody'), /^there is no account "nobody"/);
});

test('what cannot be undone needs --yes where nobody can be asked, and an answer at a terminal', async () => {
  await using at = await served();
  const { berth, json, refused, account, place } = at;
  const { sftp_username: name = '' } = await json('directory', 'create', 'Acme', '--account', account);
  for (const args of [
    ['delete', name],
    ['password', name],
    ['key', 'remove', name, 'SHA256:x'],
    ['webhook', 'secret', name, '--activate'],
  ]) {
    assert.equal(await refused('directory', ...args), 'this cannot be undone, and nobody can be asked: add --yes');
  }
  const main = new URL('../../src/main.ts', import.meta.url).pathname;
  const atTerminal = (answer: string) =>
    spawnSync('script', ['-qec', `${process.execPath} ${main} directory delete ${name}`, '/dev/null'], {
      env: { ...process.env, ...place.environment },
      input: answer,
      encoding: 'utf8',
    });
  const no = atTerminal('n\n');
  assert.match(no.stdout, new RegExp(`Delete "Acme" \\(${name}\\) with all of its files for good\\? \\[y/N\\]`));
  assert.deepEqual([no.status, /nothing has changed/.test(no.stdout)], [1, true], no.stdout);
  assert.match(await berth('directory', 'list'), new RegExp(name));
  assert.equal(atTerminal('y\n').status, 0);
  assert.doesNotMatch(await berth('directory', 'list'), new RegExp(name));
});

test('refusals are those of the API, in one line; what was made before one is told', async () => {
  await using at = await served({ BERTH_WEBHOOK_ALLOW: '127.0.0.0/8' });
  const { json, refused, account, place } = at;
  assert.equal(await refused('directory', 'create', ' ', '--account', account), "name can't be blank");
  assert.equal(
    await refused('directory', 'set', 'nobody', '--name', 'x'),
    'there is no directory "nobody": see berth directory list',
  );
  const { status, stdout, stderr } = await runCommand(
    place.environment,
    'directory',
    'create',
    'Half',
    '--account',
    account,
    '--webhook',
    'ftp://example.com',
  );
  assert.equal(status, 1);
  assert.match(stdout, /^password +\w{32} /m, 'the password is not lost');
  assert.match(stderr, /^berth: the directory \S+ was made, but not all was set: webhook_url must start with /);
  assert.match(await refused('directory', 'set', 'Half'), /^nothing is to be set/);
  assert.match(await refused('directory', 'replay', 'Half'), /^name one delivery, or say --since/);
  assert.match(await refused('directory', 'key', 'add', 'Half', '/nowhere'), /^the public key cannot be read/);
  assert.equal((await json('directory', 'show', 'Half'))['webhook_url'], null);
});

test("the socket is root's alone, replaces one that a killed service left, and goes with the service", async () => {
  await using at = await served();
  const { account, place, serve, json, refused } = at;
  const socket = operatorSocket(place.config);
  assert.equal((statSync(socket).mode & 0o777).toString(8), '600');
  const { sftp_username: name = '' } = await json('directory', 'create', 'Acme', '--account', account);
  chmodSync(place.config.runtimeDir, 0o755);
  const asNobody = spawnSync(
    'setpriv',
    ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, '-e', connecting(socket)],
    { encoding: 'utf8' },
  );
  assert.equal(asNobody.stdout, 'EACCES');

  await serve.kill('SIGKILL');
  assert.ok(existsSync(socket));
  const sentence =
    'berth serve does not run here: start it with systemctl start berth, in a checkout with scripts/start';
  assert.equal(await refused('directory', 'show', name), sentence);
  const second = await at.start();
  assert.equal((await json('directory', 'show', name))['sftp_username'], name);
  await second.kill('SIGTERM');
  assert.equal(existsSync(socket), false);
  assert.equal(await refused('directory', 'show', name), sentence);
  assert.match(
    (await runCommand(place.environment, 'directory', 'list')).stdout,
    new RegExp(name),
    'a list needs none',
  );
});

const connecting = (path: string): string =>
  `require('node:net').connect(${JSON.stringify(path)}).on('error', (e) => process.stdout.write(e.code)).on('connect', () => process.exit(9))`;

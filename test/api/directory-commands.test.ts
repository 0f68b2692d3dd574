/** `berth directory …`, run by root against a running berth: its effects, its output and its rows in the audit. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { operatorSocket } from '../../src/foundation/base/operator-socket.ts';
import { runHere } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { receiver } from '../support/receiver.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type ServeProcess, startServe } from '../support/serve-process.ts';
import { keyPair } from '../support/sftp-user.ts';

const UNKNOWN = '7f0c2f3e-9a1b-4c5d-8e6f-001122334455';
const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

type Words = [TemplateStringsArray, ...string[]];

/** A command line; a value is never more than one word: berth`directory show ${name}`. */
function wordsOf([texts, ...values]: Words): string[] {
  const words = texts.join('\0').trim().split(/\s+/);
  return words.map((word) => word.replaceAll('\0', () => values.shift() ?? ''));
}

interface Served extends AsyncDisposable {
  readonly place: Scratch;
  readonly account: string;
  readonly serve: ServeProcess;
  run(...words: Words): ReturnType<typeof runHere>;
  /** Ends with status 0; what it printed. */
  berth(...words: Words): Promise<string>;
  /** The same with `--json`. */
  json(...words: Words): Promise<Record<string, string>>;
  /** Expects status 1 and no output. Returns the message on standard error, without `berth: `. */
  refused(...words: Words): Promise<string>;
  start(): Promise<ServeProcess>;
}

async function served(): Promise<Served> {
  await using parts = new AsyncDisposableStack();
  const ports = { BERTH_API_PORT: String(await freePort()), BERTH_SFTP_PORT: String(await freePort()) };
  const place = parts.use(scratch({ ...ports, BERTH_WEBHOOK_ALLOW: '127.0.0.0/8' }));
  const run = (args: readonly string[]) =>
    runHere({ ...process.env, ...place.environment, SUDO_USER: 'alice' }, ...args);
  async function done(args: readonly string[]): Promise<string> {
    const { status, stdout, stderr } = await run(args);
    assert.equal(status, 0, `${args.join(' ')}: ${stderr}`);
    return stdout;
  }
  const json = async (args: readonly string[]) => JSON.parse(await done([...args, '--json'])) as Record<string, string>;
  await done(['prepare']);
  const { id: account = '' } = await json(['account', 'create', 'A', '--plan', 'business']);
  const serve = parts.use(await startServe(place.config, place.environment));
  const owned = parts.move();
  return {
    place,
    account,
    serve,
    run: (...words) => run(wordsOf(words)),
    berth: (...words) => done(wordsOf(words)),
    json: (...words) => json(wordsOf(words)),
    async refused(...words) {
      const { status, stdout, stderr } = await run(wordsOf(words));
      assert.deepEqual([status, stdout], [1, ''], `${words.join(' ')}: ${stderr}`);
      assert.match(stderr, /^berth: [^\n]+\n$/m);
      return stderr.replace(/^berth: /m, '').trimEnd();
    },
    start: async () => owned.use(await startServe(place.config, place.environment)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test('berth directory', async (t) => {
  await using at = await served();
  const { berth, json, refused, run, account, place } = at;

  await t.test('a directory from its creation to its end, with the audit naming who did it', async () => {
    const key = keyPair(place.dir);
    const printed = await berth`directory create ${'Acme Corp'} --account ${account} --external-id cust-42
      --max-connections 3 --webhook https://example.com/hook --public-key ${key.file}.pub --metadata {"n":1.0}`;
    const username = /^username +(acme-corp-\w{8})$/m.exec(printed)?.[1] ?? '';
    assert.match(printed, /^password +\w{32} \(shown once\)$/m);
    const { host, port } = place.config.sftp;
    assert.match(printed, new RegExp(`^connect +sftp -P ${port} ${username}@${host}$`, 'm'));
    assert.ok(existsSync(join(place.config.jailDir, username, 'files')), 'it is live');

    const first = await json`directory show ${username}`;
    for (const name of ['cust-42', 'acme-corp', 'Acme Corp', first['id'] ?? '']) {
      assert.deepEqual(await json`directory show ${name}`, first);
    }
    assert.deepEqual(
      [first['auth_mode'], first['max_connections'], first['webhook_url']],
      ['both', 3, 'https://example.com/hook'],
    );
    assert.match(await berth`directory show cust-42 --json`, /"metadata":\{"n":1\.0\}/);
    const text = await berth`directory show cust-42`;
    assert.match(text, /^sftp_username +acme-corp-\w{8}$/m);
    assert.equal(text.includes(first['webhook_secret'] ?? ''), false);
    assert.match(await berth`directory webhook show cust-42`, /^webhook_secret +\S{32}$/m);
    assert.match(await berth`directory list`, new RegExp(`${username} +both .* cust-42 +Acme Corp$`, 'm'));

    const changed = await json`directory set cust-42 --name ${'Acme GmbH'} --external-id ${''} --auth-mode password`;
    assert.deepEqual([changed['name'], changed['external_id'], changed['auth_mode']], ['Acme GmbH', null, 'password']);
    assert.match(await berth`directory webhook set ${username} ${''}`, /^webhook_url +-$/m);
    assert.equal(await berth`directory uploads ${username} --json`, '[]\n');
    assert.match(await berth`directory password ${username} --yes`, /^password +\w{32} \(shown once\)$/m);

    assert.match(await berth`directory delete ${username} --yes`, new RegExp(`^Deleted ${username} `));
    assert.equal(existsSync(join(place.config.jailDir, username)), false);
    const audit = JSON.parse(await berth`audit --json`) as { action: string; key_id: string; route: string }[];
    assert.deepEqual(new Set(audit.map(({ key_id }) => key_id)), new Set(['operator:alice']));
    assert.deepEqual([audit[0]?.action, audit[0]?.route], ['create', 'POST /api/v1/directories']);
    assert.equal(audit.at(-1)?.action, 'delete');
    assert.match(await berth`audit`, / operator:alice /);
  });

  await t.test('names that several directories have are listed; an id or a username is one alone', async () => {
    const first = await json`directory create Twin --account ${account}`;
    const second = await json`directory create Twin --account ${account}`;
    const [id = '', username = ''] = [first['id'], first['sftp_username']];
    // A customer may use any name: an id and a username still mean their own directory.
    const thief = await json`directory create ${username} --account ${account} --external-id ${id}`;
    const said = await refused`directory delete Twin --yes`;
    assert.match(said, /^2 directories are called "Twin": use an id or username$/m);
    for (const each of [id, username, second['id'] ?? '?']) assert.ok(said.includes(each));
    assert.equal(said.includes(thief['id'] ?? ''), false);
    for (const name of [id, username]) assert.equal((await json`directory show ${name}`)['id'], id);
    const other = (await json`account create B --plan free`)['id'] ?? '';
    assert.match(await refused`directory show ${id} --account ${other}`, /^there is no directory/);
    await json`directory create Twin --account ${other}`;
    assert.equal((await json`directory show Twin --account ${other}`)['slug'], 'twin');
    assert.match(await refused`directory create more --account ${other}`, /^Directory limit reached/);
    assert.match(await refused`directory create more --account nobody`, /^there is no account "nobody"/);
  });

  await t.test('keys are added, listed and removed', async () => {
    await berth`directory create Keyed --account ${account}`;
    const key = keyPair(place.dir, 'second');
    const added = await berth`directory key add Keyed ${key.file}.pub`;
    const fingerprint = /^Added (SHA256:\S+) to keyed-/.exec(added)?.[1] ?? '';
    assert.match(await refused`directory key add Keyed ${key.file}.pub`, /^public_key /);
    const listed = await berth`directory key list Keyed`;
    assert.match(listed, /^FINGERPRINT +TYPE +ADDED +LAST USED +COMMENT\nSHA256:\S+ +ssh-ed25519 /);
    assert.ok(listed.includes(fingerprint));
    await berth`directory key remove Keyed ${fingerprint} --yes`;
    assert.equal(await berth`directory key list Keyed --json`, '[]\n');
  });

  await t.test('a webhook is tried, its secret replaced, and what failed is sent again', async () => {
    await using hook = await receiver();
    const { webhook_secret: old = '' } = await json`directory create Hooked --account ${account} --webhook ${hook.url}`;
    assert.match(await berth`directory webhook test Hooked`, /^delivered +true\nstatus +204\n/);
    assert.equal(hook.requests.length, 1);
    const next = (await json`directory webhook secret Hooked`)['secret'] ?? '';
    assert.ok((await berth`directory webhook secret Hooked --activate --yes`).includes(next));
    assert.equal((await json`directory webhook show Hooked`)['webhook_secret'], next);
    assert.notEqual(next, old);
    assert.equal(await berth`directory replay Hooked --since 7d`, '0 will be sent again\n');
    assert.match(await refused`directory replay Hooked ${UNKNOWN}`, /not found/i);
    await berth`directory webhook set Hooked http://127.0.0.1:9/`;
    const { status, stdout, stderr } = await run`directory webhook test Hooked`;
    assert.deepEqual([status, stderr], [1, 'berth: the receiver did not accept it\n']);
    assert.match(stdout, /^delivered +false\n[^]*ECONNREFUSED/);
  });

  await t.test('it is suspended and resumed; expiry, networks and the quota are set, and taken back', async () => {
    await berth`directory create Guarded --account ${account}`;
    assert.match(await berth`directory suspend Guarded`, /^guarded-\w{8} is suspended: logins are refused\n$/);
    const set = await berth`directory set Guarded --expires 2030-01-01T00:00:00Z --allow-network 192.0.2.0/24
      --allow-network 2001:db8::/32`;
    assert.match(
      set,
      /^suspended +true\nexpires_at +2030-01-01T00:00:00\.000000Z\nallowed_networks +\["192\.0\.2\.0\/24","2001:db8::\/32"\]$/m,
    );
    assert.match(await refused`directory set Guarded --allow-network nonsense`, /^allowed_networks /);
    assert.match(await refused`directory set Guarded --quota 1000000`, /quota/, 'the disk of this test has none');
    await berth`directory resume Guarded`;
    // As the command's own help has it.
    const day = await berth`directory set Guarded --expires 2030-12-31T23:00Z`;
    assert.match(day, /^expires_at +2030-12-31T23:00:00\.000000Z$/m);
    assert.equal((await run`directory set Guarded --expires 2030-02-30`).status, 2);
    await berth`directory set Guarded --expires never --allow-network everywhere --quota none`;
    const shown = await berth`directory show Guarded`;
    assert.match(shown, /^suspended +false\nexpires_at +-\nallowed_networks +\[\]\nmax_bytes +-\nused_bytes +0$/m);
  });

  await t.test('commands that cannot be undone need --yes, or an answer at a terminal', async () => {
    const name = (await json`directory create Fragile --account ${account}`)['sftp_username'] ?? '';
    const sentence = 'this cannot be undone, and there is no terminal to ask on: add --yes';
    assert.equal(await refused`directory delete ${name}`, sentence);
    assert.equal(await refused`directory password ${name}`, sentence);
    assert.equal(await refused`directory key remove ${name} SHA256:x`, sentence);
    assert.equal(await refused`directory webhook secret ${name} --activate`, sentence);
    const atTerminal = (answer: string) =>
      spawnSync('script', ['-qec', `${process.execPath} ${MAIN} directory delete ${name}`, '/dev/null'], {
        env: { ...nodeEnvironment, ...process.env, ...place.environment },
        input: answer,
        encoding: 'utf8',
      });
    const no = atTerminal('n\n');
    assert.match(no.stdout, new RegExp(`Delete "Fragile" \\(${name}\\) with all of its files for good\\? \\[y/N\\]`));
    assert.deepEqual([no.status, /nothing has changed/.test(no.stdout)], [1, true], no.stdout);
    assert.match(await berth`directory list`, new RegExp(name));
    assert.equal(atTerminal('y\n').status, 0);
    assert.doesNotMatch(await berth`directory list`, new RegExp(name));
  });

  await t.test('refusals are those of the API, in one line; directories created before one are reported', async () => {
    assert.equal(await refused`directory create ${' '} --account ${account}`, "name can't be blank");
    const unknown = 'there is no directory "nobody": see berth directory list';
    assert.equal(await refused`directory set nobody --name x`, unknown);
    const half = await run`directory create Half --account ${account} --webhook ftp://example.com`;
    assert.equal(half.status, 1);
    assert.match(half.stdout, /^password +\w{32} /m, 'the password is not lost');
    assert.match(
      half.stderr,
      /^berth: the directory \S+ was created, but some settings failed: webhook_url must start with /,
    );
    assert.match(await refused`directory set Half`, /^there is nothing to set/);
    assert.match(await refused`directory replay Half`, /^name one delivery, or give --since/);
    assert.match(await refused`directory key add Half /nowhere`, /^the public key cannot be read/);
    assert.equal((await json`directory show Half`)['webhook_url'], null);
    const { stderr } = await run`directory webhook set Half http://10.0.0.1/`;
    assert.match(stderr, /^berth: warning: webhooks to 10\.0\.0\.1 will be refused/);
  });
});

test("the socket is root's alone, replaces one that a killed service left, and goes with the service", async () => {
  await using at = await served();
  const { account, place, serve, json, berth, refused } = at;
  const socket = operatorSocket(place.config);
  assert.equal((statSync(socket).mode & 0o777).toString(8), '600');
  const name = (await json`directory create Acme --account ${account}`)['sftp_username'] ?? '';
  chmodSync(place.config.runtimeDir, 0o755);
  const ids = ['--reuid=65534', '--regid=65534', '--clear-groups'];
  const asNobody = spawnSync('setpriv', [...ids, process.execPath, '-e', connecting(socket)], { encoding: 'utf8' });
  assert.equal(asNobody.stdout, 'EACCES');

  await serve.kill('SIGKILL');
  assert.ok(existsSync(socket));
  const hint = 'start it with systemctl start berth, or with scripts/start in a checkout';
  assert.equal(await refused`directory show ${name}`, `berth serve does not run here: ${hint}`);
  const second = await at.start();
  assert.equal((await json`directory show ${name}`)['sftp_username'], name);
  await second.kill('SIGTERM');
  assert.equal(existsSync(socket), false);
  assert.equal(await refused`directory show ${name}`, `berth serve does not run here: ${hint}`);
  assert.match(await berth`directory list`, new RegExp(name), 'a list needs no service');
});

const connecting = (path: string): string =>
  `require('node:net').connect(${JSON.stringify(path)}).on('error', (e) => process.stdout.write(e.code)).on('connect', () => process.exit(9))`;

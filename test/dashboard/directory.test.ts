/** A directory's page: what it shows, and every action with its effect as the API, a login and the audit see it. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openDatabase } from '../../src/db/open.ts';
import { clientCommands } from '../../src/dashboard/pages/directory/client-commands.ts';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { type PageAnswer, signedIn, type Visitor } from '../support/dashboard.ts';
import { dataOf } from '../support/field-sets.ts';
import { madeKeys } from '../support/made-keys.ts';
import { sftp } from '../support/openssh-client.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { keyPair } from '../support/sftp-user.ts';

const ASKPASS = fileURLToPath(new URL('../support/askpass', import.meta.url));

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

const pathOf = ({ id }: { id: string }): string => `/dashboard/directories/${id}`;
const unescaped = (html: string): string =>
  html
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
const passwordIn = ({ text: html }: PageAnswer): string | undefined =>
  /data-secret="sftp-password"[^>]*>([^<]*)</.exec(html)?.[1];
const problemIn = ({ text: html }: PageAnswer, field: string): string =>
  unescaped(new RegExp(`id="${field}-error"[^>]*>([^<]*)<`).exec(html)?.[1] ?? '');

async function opens(files: Scratch, berth: TestBerth, username: string, password: string): Promise<boolean> {
  const login = { port: berth.config.sftp.port, username, password };
  return (await sftp(files.dir, login, ['pwd'])).code === 0;
}

const show = async (berth: TestBerth, { id }: { id: string }, part = ''): Promise<Record<string, unknown>> =>
  dataOf(await berth.send('GET', `/directories/${id}${part}`));

/** What the audit has of a directory, oldest first. */
async function audited(berth: TestBerth, { id }: { id: string }): Promise<string[]> {
  const database = await openDatabase(berth.config.databaseFile);
  const rows = await database.reads
    .selectFrom('audit')
    .select(['action', 'key_id', 'route', 'changes'])
    .where('directory_id', '=', id)
    .orderBy('id')
    .execute();
  await database.close();
  return rows.map(({ action, key_id, route, changes }) => {
    const fields = Object.keys(JSON.parse(changes) as object).join(',');
    return `${action} ${fields} by ${key_id} through ${route}`;
  });
}

async function done(visitor: Visitor, path: string, fields: Record<string, string> = {}): Promise<PageAnswer> {
  const answer = await visitor.submit(path, fields);
  assert.equal(answer.status, 200, unescaped(answer.text.replaceAll(/<[^>]*>/g, ' ')));
  assert.match(answer.text, /class="notice"/);
  return answer;
}

test('New password: shown once, in force, the old one refused; suspended refused, resumed let in', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const lets = (password: string) => opens(files, berth, directory.username, password);

  const renewed = await done(user, `${path}/password`);
  const password = passwordIn(renewed) ?? '';
  assert.match(password, /^[A-Za-z0-9]{32}$/);
  assert.equal(passwordIn(await user.get(path)), undefined, 'shown once');
  assert.deepEqual([await lets(directory.password), await lets(password)], [false, true]);

  await using live = await connect({ ...directory.login, password });
  assert.match((await done(user, `${path}/suspend`)).text, /suspended<.*Resume/s);
  await live.closed;
  assert.equal(await lets(password), false);
  assert.match((await done(user, `${path}/resume`)).text, />live<.*Suspend/s);
  assert.equal(await lets(password), true);

  assert.deepEqual(await audited(berth, directory).then((all) => all.slice(2)), [
    `update password_hash by user:${user.email} through POST /dashboard/directories/:id/password`,
    `update suspended by user:${user.email} through POST /dashboard/directories/:id/suspend`,
    `update suspended by user:${user.email} through POST /dashboard/directories/:id/resume`,
  ]);
});

test('public keys: added, listed, used, removed; the mode decides what lets in', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const pair = keyPair(files.dir);
  const byKey = { port: directory.login.port, username: directory.username, privateKey: pair.privateKey };
  const letsKeyIn = async (): Promise<boolean> => {
    try {
      await using _connection = await connect(byKey);
      return true;
    } catch {
      return false;
    }
  };

  const added = await done(user, `${path}/public-keys`, {
    public_key: `${pair.publicKey.split(' ', 2).join(' ')} a <b>\u202e`,
  });
  assert.match(added.text, /a &lt;b&gt;<span class="hidden-character">U\+202E<\/span>/);
  assert.match(added.text, /Only the password lets in: the keys wait/);
  const [key] = dataOf<{ fingerprint: string }[]>(await berth.send('GET', `/directories/${directory.id}/public_keys`));
  assert.ok(key && added.text.includes(key.fingerprint));
  assert.equal(await letsKeyIn(), false);
  await done(user, `${path}/auth-mode`, { auth_mode: 'public_key' });
  assert.equal((await show(berth, directory))['auth_mode'], 'public_key');
  assert.deepEqual(
    [await letsKeyIn(), await opens(files, berth, directory.username, directory.password)],
    [true, false],
  );

  const again = await user.post(`${path}/public-keys`, { public_key: pair.publicKey });
  assert.equal(again.status, 422);
  assert.equal(problemIn(again, 'public_key'), 'Public key has already been taken');
  const wrong = await user.post(`${path}/public-keys`, { public_key: 'ssh-rsa AAAA</textarea><script>' });
  assert.equal(problemIn(wrong, 'public_key'), 'Public key is not a valid OpenSSH public key');
  assert.doesNotMatch(wrong.text, /<script>/);
  assert.equal((await user.post(`${path}/auth-mode`, { auth_mode: 'none' })).status, 422);

  const removed = await done(user, `${path}/public-keys/remove`, { fingerprint: key.fingerprint });
  assert.match(removed.text, /nobody can log in/);
  assert.equal(await letsKeyIn(), false);
  assert.equal((await user.post(`${path}/public-keys/remove`, { fingerprint: key.fingerprint })).status, 404);
  assert.equal((await show(berth, directory))['public_key_fingerprint'], null);
});

test('access: networks and expiry, as the API has them; what is wrong is said beside its field', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const access = async () => (await show(berth, directory, '/access'))['access'];

  await done(user, `${path}/access`, { expires_at: '2099-01-02T03:04', allowed_networks: ' 203.0.113.0/24,\r\n::1 ' });
  const networks = ['203.0.113.0/24', '::1/128'];
  assert.deepEqual(await access(), {
    suspended: false,
    expires_at: '2099-01-02T03:04:00.000000Z',
    allowed_networks: networks,
  });
  assert.equal(await opens(files, berth, directory.username, directory.password), false);
  const page = await user.get(path);
  assert.match(page.text, /value="2099-01-02T03:04" id="expires_at"/);
  assert.match(page.text, /203\.0\.113\.0\/24\n::1\/128/);

  // A time that is more exact than the field shows stays as it is.
  const exact = '2099-01-02T03:04:05.000006Z';
  await berth.send('PATCH', `/directories/${directory.id}/access`, { json: { access: { expires_at: exact } } });
  await done(user, `${path}/access`, { expires_at: '2099-01-02T03:04:05', allowed_networks: '' });
  assert.deepEqual(await access(), { suspended: false, expires_at: exact, allowed_networks: [] });
  assert.equal(await opens(files, berth, directory.username, directory.password), true);

  const wrong = await user.post(`${path}/access`, { expires_at: 'soon', allowed_networks: '10.0.0.1/8 <b>' });
  assert.equal(wrong.status, 422);
  assert.equal(problemIn(wrong, 'expires_at'), 'Expires (UTC) is invalid');
  assert.match(problemIn(wrong, 'allowed_networks'), /has host bits set: its network is 10\.0\.0\.0\/8/);
  assert.match(wrong.text, /10\.0\.0\.1\/8 &lt;b&gt;/, 'what was typed is still there');

  assert.match((await done(user, `${path}/access`, { expires_at: '2001-01-01T00:00' })).text, />expired</);
  assert.equal(await opens(files, berth, directory.username, directory.password), false);
  await done(user, `${path}/access`, { expires_at: '' });
  assert.equal(await opens(files, berth, directory.username, directory.password), true);
});

test('settings: what a member sets as well; an unchanged form changes nothing; a quota says why there is none', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using user = await signedIn(place(berth), berth.accountId);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const directory = await berth.directory({ metadata: { note: '<i>\u202e' } });
  const path = pathOf(directory);
  const fields = { name: 'Ärzte <GmbH>', description: 'a\r\nb', external_id: 'order "7"', max_connections: '3' };
  const saved = await done(member, `${path}/settings`, fields);
  assert.match(saved.text, /<h1>Ärzte &lt;GmbH&gt;<\/h1>/);
  assert.match(saved.text, /&lt;i&gt;<span class="hidden-character">U\+202E/);
  const shown = await show(berth, directory);
  const { name, description, external_id, max_connections } = shown;
  assert.deepEqual([name, description, external_id, max_connections], ['Ärzte <GmbH>', 'a\nb', 'order "7"', 3]);
  assert.deepEqual((await audited(berth, directory)).slice(2), [
    `update name,description,external_id,max_connections by user:${member.email} through POST /dashboard/directories/:id/settings`,
  ]);

  // A browser drops the line break of a name that the API was given.
  const odd = { name: 'two\nlines', external_id: 'x\ny' };
  await berth.send('PATCH', `/directories/${directory.id}`, { json: { directory: odd } });
  const before = await show(berth, directory);
  await done(user, `${path}/settings`, { ...fields, name: 'twolines', external_id: 'xy' });
  assert.deepEqual(await show(berth, directory), before);
  await done(user, `${path}/settings`, { ...fields, external_id: '', description: '' });
  const emptied = await show(berth, directory);
  assert.deepEqual([emptied['external_id'], emptied['description']], [null, null]);

  const wrong = await user.post(`${path}/settings`, { name: ' ', max_connections: '0', external_id: 'x'.repeat(256) });
  assert.equal(wrong.status, 422);
  assert.equal(problemIn(wrong, 'name'), "Name can't be blank");
  assert.equal(problemIn(wrong, 'max_connections'), 'Max connections must be greater than or equal to 1');
  assert.equal(problemIn(wrong, 'external_id'), 'External id should be at most 255 character(s)');
  assert.equal((await user.post(`${path}/settings`, { name: 'a\0b', max_connections: '1' })).status, 422);

  const quota = await user.post(`${path}/quota`, { max_bytes: '10' });
  assert.equal(quota.status, 409);
  assert.match(quota.text, /role="alert">No quota can be set: /);
  assert.equal(
    problemIn(await user.post(`${path}/quota`, { max_bytes: 'all' }), 'max_bytes'),
    'Quota in MiB is invalid',
  );
  await done(user, `${path}/quota`, { max_bytes: '' });
});

test('Delete directory: after its name is typed as it is shown, and then it is gone', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  for (const [name, typed] of [
    ['Acme', 'Acme'],
    ['a  b\u202ec ', 'a bU+202Ec'],
    ['<script>alert(1)</script>', '<script>alert(1)</script>'],
  ] as const) {
    const directory = await berth.directory({ name });
    const path = pathOf(directory);
    const refused = await member.post(`${path}/delete`, { confirmation: 'acme' });
    assert.equal(refused.status, 422);
    assert.equal(problemIn(refused, 'confirmation'), 'Type the name to delete it is not the name of this directory');
    assert.equal((await berth.send('GET', `/directories/${directory.id}`)).status, 200);
    const answer = await done(member, `${path}/delete`, { confirmation: typed });
    assert.match(answer.text, /<h1>Directories<\/h1>.*The directory and its files are deleted/s);
    assert.equal((await member.get(path)).status, 404);
    assert.equal((await berth.send('GET', `/directories/${directory.id}`)).status, 404);
    assert.equal(await opens(files, berth, directory.username, directory.password), false);
    const last = (await audited(berth, directory)).at(-1);
    assert.equal(last, `delete  by user:${member.email} through POST /dashboard/directories/:id/delete`);
  }
});

const ADMIN_ACTIONS = [
  'password',
  'suspend',
  'resume',
  'access',
  'quota',
  'auth-mode',
  'public-keys',
  'public-keys/remove',
];

test('a member changes nothing about how one gets in, and sees no means to', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const before = await show(berth, directory);
  const { text: html } = await member.get(pathOf(directory));
  for (const action of ADMIN_ACTIONS) {
    assert.ok(!html.includes(`${pathOf(directory)}/${action}"`), action);
    assert.equal((await member.post(`${pathOf(directory)}/${action}`, { max_bytes: '' })).status, 403, action);
  }
  assert.doesNotMatch(html, /New password|Suspend|Public key<\/label>/);
  assert.deepEqual(await show(berth, directory), before);
  assert.equal(await opens(files, berth, directory.username, directory.password), true);
});

test("another account's directory is answered like one that never was, whatever is asked of it", async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const [, , { line }] = madeKeys(3);
  const directory = await berth.directory();
  const before = await show(berth, directory);
  using stranger = await signedIn(place(berth), await otherAccount(berth));
  const actions = ['', ...ADMIN_ACTIONS.map((action) => `/${action}`), '/settings', '/delete'];
  const fields = { name: 'Mine', confirmation: 'Acme', public_key: line, auth_mode: 'both', fingerprint: 'SHA256:x' };
  for (const action of actions) {
    const [theirs, nobodys] = await Promise.all(
      [directory, { id: '00000000-0000-4000-8000-000000000000' }].map((of) =>
        action === ''
          ? stranger.get(pathOf(of))
          : stranger.post(`${pathOf(of)}${action}`, { max_connections: '1', ...fields }),
      ),
    );
    assert.equal(theirs?.status, 404, action);
    assert.equal(theirs.text, nobodys?.text, action);
  }
  assert.doesNotMatch((await stranger.get('/dashboard/directories')).text, new RegExp(directory.id));
  assert.deepEqual(await show(berth, directory), before);
});

async function otherAccount(berth: TestBerth): Promise<string> {
  const database = await openDatabase(berth.config.databaseFile);
  const id = '11111111-1111-4111-8111-111111111111';
  await database.db.insertInto('accounts').values({ id, name: 'Other', plan: 'business', inserted_at: 1 }).execute();
  await database.close();
  return id;
}

/** The command as it is shown on the page, with what a test needs beside it. */
async function commandOf(visitor: Visitor, directory: TestDirectory, client: string): Promise<string> {
  const { text: html } = await visitor.get(pathOf(directory));
  const shown =
    new RegExp(`<dt>${client}</dt><dd><span class="copyable"><code[^>]*>([^<]*)</code>`).exec(html)?.[1] ?? '';
  return unescaped(shown);
}

const CLIENTS = {
  sftp: (command: string, known: string) =>
    `echo ls | ${command.replace('sftp', `sftp -oUserKnownHostsFile=${known} -oStrictHostKeyChecking=yes`)}`,
  curl: (command: string, _: string, { username, password }: TestDirectory) =>
    command.replace(`--user ${username}`, `--user ${username}:${password}`),
  lftp: (command: string, known: string, { username, password }: TestDirectory) =>
    `${command.replace('lftp ', `lftp -e 'set sftp:connect-program "ssh -a -x -oUserKnownHostsFile=${known}"; ls; exit' -u ${username},${password} `)}`,
  rclone: (command: string, _: string, { password }: TestDirectory) =>
    `${command.replace('--sftp-ask-password', '')} --sftp-pass "$(rclone obscure ${password})"`,
} as const;

for (const [client, prepared] of Object.entries(CLIENTS)) {
  const isThere = spawnSync('sh', ['-c', `command -v ${client}`]).status === 0;
  test(`the command for ${client} lists the files, from a server that it knows`, { skip: !isThere }, async () => {
    using files = scratch({ BERTH_DASHBOARD: 'on' });
    await using berth = await startBerth(files);
    using user = await signedIn(place(berth), berth.accountId, 'member');
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await connection.sftp();
    await new Promise((resolve, reject) =>
      session.writeFile('a-file.csv', 'x', (error) => (error ? reject(error) : resolve(0))),
    );
    const { text: html } = await user.get(pathOf(directory));
    const known = join(files.dir, '.ssh', 'known_hosts');
    mkdirSync(join(files.dir, '.ssh'), { mode: 0o700 });
    const lines = [...html.matchAll(/data-copy="(\[127[^"]*)"/g)].map(([, line = '']) => line);
    assert.ok(lines.length > 0);
    writeFileSync(known, `${lines.join('\n')}\n`);
    const command = prepared(await commandOf(user, directory, client), known, directory);
    const env = {
      PATH: process.env['PATH'],
      HOME: files.dir,
      SSH_ASKPASS: ASKPASS,
      SSH_ASKPASS_REQUIRE: 'force',
      SECRET: directory.password,
    };
    const child = spawn('sh', ['-c', `${command} 2>&1`], { env, stdio: ['ignore', 'pipe', 'ignore'] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    assert.equal(code, 0, `${command}\n${output}`);
    assert.match(output, /a-file\.csv/);
  });
}

test('commands are quoted for a shell, and have an IPv6 address in brackets', () => {
  const key = { type: 'ssh-ed25519', fingerprint: `SHA256:${'a'.repeat(43)}`, known_hosts: '', sshfp: [] };
  const rsa = { ...key, type: 'ssh-rsa' };
  assert.deepEqual(clientCommands({ host: '2001:db8::1', port: 2222, username: 'acme-1' }, [key, rsa]), {
    sftp: "sftp -P 2222 'acme-1@[2001:db8::1]'",
    WinSCP: `winscp.exe sftp://acme-1@[2001:db8::1]:2222/ -hostkey="ssh-ed25519 255 ${'a'.repeat(43)}="`,
    FileZilla: 'sftp://acme-1@[2001:db8::1]:2222',
    lftp: "lftp 'sftp://acme-1@[2001:db8::1]:2222'",
    rclone:
      "rclone lsf :sftp: --sftp-host '[2001:db8::1]' --sftp-port 2222 --sftp-user acme-1 --sftp-ask-password --sftp-known-hosts-file ~/.ssh/known_hosts",
    curl: "curl --user acme-1 'sftp://[2001:db8::1]:2222/files/'",
  });
  const { sftp: plain } = clientCommands({ host: 'sftp.example.com', port: 22, username: 'acme-1' }, []);
  assert.equal(plain, 'sftp -P 22 acme-1@sftp.example.com');
});

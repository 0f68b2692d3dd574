/** A secret is shown only where it should be, once. Files with secrets are readable only by their owner, whatever the umask. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { globSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import { sql } from 'kysely';
import type { Config } from '../../src/foundation/base/config.ts';
import { errorCode } from '../../src/foundation/base/errors.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { ApiAnswer, Send } from '../support/api-client.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { freePort } from '../support/free-port.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { onPostgres, sqliteOnly } from '../support/postgres.ts';
import { receiver } from '../support/receiver.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

test('a whole run at the level "trace" shows no key, password, hash or webhook secret', async (t) => {
  using place = scratch({ BERTH_LOG_LEVEL: 'trace' });
  using customer = scratch();
  await using sshd = await startSshd(place);
  const umask = process.umask(0);
  t.after(() => process.umask(umask));
  // It echoes what it got, and fails first.
  await using hook = await receiver({
    respond: (response, request, index) =>
      response.writeHead(index === 0 ? 500 : 204).end(JSON.stringify(request.headers)),
  });
  const { config, environment } = await fixedPorts(place, sshd, {
    BERTH_RATE_LIMIT: '1000',
    BERTH_WEBHOOK_RETRY_DELAYS: '0.05,0.05,0.05',
  });
  await using serve = await startServe(config, environment);

  /** What must not show, by what it is. */
  const secrets = new Map<string, string>();
  /** All output in which no secret may appear. */
  const shown: string[] = [];
  const berth = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [MAIN, ...args], {
      env: { ...nodeEnvironment, ...environment },
    });
    shown.push(stderr);
    return stdout;
  };
  const makeKey = async (account: string, role: string): Promise<{ id: string; key: string }> => {
    const made = JSON.parse(await berth('key', 'create', account, '--role', role, '--json')) as {
      id: string;
      key: string;
    };
    secrets.set(`the ${role} key ${made.id}`, made.key);
    return made;
  };
  const { id: account } = JSON.parse(await berth('account', 'create', 'A', '--plan', 'business', '--json')) as {
    id: string;
  };
  const admin = await makeKey(account, 'admin');
  const member = await makeKey(account, 'member');
  const revoked = await makeKey(account, 'member');

  using client = clientOf(config, admin.key);
  const refused = async (asked: Promise<ApiAnswer>, ...statuses: number[]): Promise<void> => {
    const { status, text, headers } = await asked;
    assert.ok(statuses.includes(status), `${status}: ${text}`);
    shown.push(text, JSON.stringify(headers));
  };
  const made = await client.send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
  const { data } = made.json as { data: Record<string, string> };
  const { id = '', sftp_username: username = '', sftp_password: password = '', webhook_secret: secret = '' } = data;
  secrets.set('the password', password).set('the webhook secret', secret);
  const urlSecret = randomBytes(12).toString('hex');
  secrets.set('the password in a webhook URL', urlSecret);
  const path = `/directories/${id}`;
  const hookUrl = hook.url.replace('//', `//user:${urlSecret}@`);

  await refusals({ send: client.send, member: client.as(member.key), path, secrets: [...secrets.values()], refused });
  shown.push(await berth('key', 'revoke', revoked.id), await berth('key', 'list', account));
  shown.push(await berth('key', 'list', account, '--json'), await berth('account', 'list'));
  await refused(client.as(revoked.key)('GET', '/directories'), 401);

  const login = { port: sshd.port, username };
  writeFileSync(join(customer.dir, 'a.txt'), 'hello');
  const wrong = randomBytes(12).toString('hex');
  secrets.set('a wrong password', wrong);
  // A password in the username's place: stock sshd writes usernames to its log; nobody else learns of it.
  const mistyped = randomBytes(12).toString('hex');
  const failed = [
    { ...login, password: wrong },
    { ...login, username: mistyped, password },
    { ...login, username: 'nobody-1', password },
  ];
  // PAM takes two seconds for each.
  for (const { code } of await Promise.all(failed.map((attempt) => sftp(customer.dir, attempt, ['pwd'])))) {
    assert.equal(code, 255);
  }
  // To a receiver that fails, then to a port where nothing listens.
  for (const url of [hookUrl, `http://user:${urlSecret}@127.0.0.1:1/${urlSecret}`]) {
    assert.equal((await client.send('PATCH', path, { json: { directory: { webhook_url: url } } })).status, 200);
    assert.equal(
      (await sftp(customer.dir, { ...login, password }, [`put a.txt ${url === hookUrl ? 'a' : 'b'}`])).code,
      0,
    );
    await until('the webhook has been tried', () => serve.output().split('webhook').length > (url === hookUrl ? 2 : 6));
  }
  assert.ok(hook.requests.length >= 2);
  const keyFile = join(customer.dir, 'key');
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const public_key = readFileSync(`${keyFile}.pub`, 'utf8');
  const change = await client.send('PATCH', path, { json: { directory: { public_key, auth_mode: 'both' } } });
  assert.equal(change.status, 200);
  assert.equal((await sftp(customer.dir, { ...login, keyFile }, ['pwd'])).code, 0);

  const { db, close } = await openDatabase(config.database);
  t.after(close);
  for (const { hash } of await db.selectFrom('api_keys').select('hash').execute())
    secrets.set('the hash of a key', hash);
  for (const { password_hash } of await db.selectFrom('directories').select('password_hash').execute())
    secrets.set('the hash of a password', password_hash);
  checkFiles(place.dir, [...secrets.values()]);
  if (!onPostgres) await sql`pragma wal_checkpoint(truncate)`.execute(db);
  await sql`vacuum`.execute(db);
  checkFiles(place.dir, [...secrets.values()]);

  await sql`alter table directories rename to gone`.execute(db);
  await refused(client.send('PATCH', path, { json: { directory: { name: password, description: secret } } }), 500);
  await refused(client.send('GET', `${path}?x=${admin.key}`), 500);
  await sql`alter table gone rename to directories`.execute(db);
  assert.equal((await client.send('DELETE', path)).status, 204);
  assert.equal(await serve.kill('SIGTERM'), 0);

  assert.match(serve.output(), /webhook failed/);
  assert.match(sshd.output(), /Failed password/);
  assert.ok(sshd.output().includes(mistyped));
  const kept = globSync('{state,run}/**/*', { cwd: place.dir }).filter((file) =>
    lstatSync(join(place.dir, file)).isFile(),
  );
  assert.ok(kept.length > 5);
  for (const file of kept) {
    assert.ok(
      !readFileSync(join(place.dir, file), 'latin1').includes(mistyped),
      `${file} has what was typed as a username`,
    );
  }
  assert.ok(![...shown, serve.output()].join('').includes(mistyped), 'what was typed as a username was shown');
  const everything = [...shown, serve.output(), sshd.output()].join('\n');
  for (const [name, text] of secrets) assert.ok(text.length >= 20 && !everything.includes(text), `${name} was shown`);
});

/** Requests that are refused although, or because, they have secrets in every place. */
async function refusals({
  send,
  member,
  path,
  secrets,
  refused,
}: {
  send: Send;
  member: Send;
  path: string;
  secrets: readonly string[];
  refused: (asked: Promise<ApiAnswer>, ...statuses: number[]) => Promise<void>;
}): Promise<void> {
  const json = { 'content-type': 'application/json' };
  for (const secret of secrets) {
    const directory = { name: secret.repeat(9), webhook_url: secret, external_id: [secret], max_connections: secret };
    await refused(send('PATCH', path, { json: { directory } }), 422);
    await refused(send('PATCH', path, { json: { directory: { public_key: secret, auth_mode: secret } } }), 422);
    await refused(member('PATCH', path, { json: { directory: { public_key: secret } } }), 403);
    await refused(send('PATCH', path, { body: `{"directory":{"${secret}"`, headers: json }), 400);
    await refused(send('PATCH', path, { body: secret, headers: { 'content-type': `text/${secret}` } }), 415);
    await refused(send('GET', `/directories?limit=${secret}&after=${secret}`), 422);
    await refused(send('GET', `/directories/${secret}`), 404);
    await refused(send('GET', `//${secret}?key=${secret}`), 404);
    await refused(send('PUT', '/directories', { headers: { 'x-request-id': secret, cookie: secret } }), 405);
    await refused(send('GET', '/directories', { authorization: `Basic ${secret}` }), 401);
    await refused(send('GET', '/directories', { authorization: `Bearer ${secret}x` }), 401);
    await refused(send('GET', '/directories', { headers: { 'user-agent': secret, accept: secret } }), 200);
  }
}

function contentOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file that holds one of the secrets is readable by its owner alone. */
function checkFiles(dir: string, secrets: readonly string[]): void {
  const holders: string[] = [];
  for (const file of globSync('**/*', { cwd: dir })) {
    const stats = lstatSync(join(dir, file), { throwIfNoEntry: false });
    const text = stats?.isFile() ? contentOf(join(dir, file)) : undefined;
    // berth removes a journal that it no longer needs.
    if (!stats || text === undefined) continue;
    if (!/PRIVATE KEY/.test(text) && !secrets.some((secret) => text.includes(secret)) && !file.includes('berth.db'))
      continue;
    holders.push(file);
    assert.equal(stats.mode & 0o7777, 0o600, `${file} is ${(stats.mode & 0o7777).toString(8)}`);
  }
  for (const known of [
    ...(onPostgres ? [] : [/berth\.db$/, /berth\.db-wal$/, /berth\.db-shm$/]),
    /tls\/key\.pem$/,
    /\.user-privileged$/,
    /_key$/,
  ]) {
    assert.ok(
      holders.some((file) => known.test(file)),
      `${String(known)} is among ${holders.join(' ')}`,
    );
  }
}

async function stdoutOf(place: Scratch, ...args: string[]): Promise<string> {
  const env = { ...nodeEnvironment, ...place.environment };
  return (await promisify(execFile)(process.execPath, [MAIN, ...args], { env })).stdout;
}

/** The files with secrets below a folder. Only their owner may read them. */
function secretFiles(folder: string, secrets: readonly string[]): string[] {
  return globSync('**/*', { cwd: folder }).filter((name) => {
    const stats = lstatSync(join(folder, name));
    if (!stats.isFile()) return false;
    const text = readFileSync(join(folder, name), 'latin1');
    if (!text.includes('PRIVATE KEY') && !secrets.some((secret) => text.includes(secret))) return false;
    assert.equal((stats.mode & 0o7777).toString(8), '600', name);
    return true;
  });
}

test('prepare, account, key, serve, backup and restore under umask 000', sqliteOnly, async (t) => {
  const umask = process.umask(0);
  t.after(() => process.umask(umask));
  const port = await freePort();
  using place = scratch({ BERTH_API_PORT: String(port), BERTH_SFTP_PORT: String(await freePort()) });
  using restored = scratch();
  const config: Config = { ...place.config, api: { host: '127.0.0.1', port } };

  await stdoutOf(place, 'prepare');
  const { id: account } = JSON.parse(await stdoutOf(place, 'account', 'create', 'A', '--plan', 'pro', '--json')) as {
    id: string;
  };
  const { key } = JSON.parse(await stdoutOf(place, 'key', 'create', account, '--role', 'admin', '--json')) as {
    key: string;
  };
  const serve = await startServe(config, place.environment);
  using client = clientOf(config, key);
  const { json } = await client.send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
  const { data } = json as { data: { sftp_password: string; webhook_secret: string } };
  const archives = join(place.dir, 'archives');
  mkdirSync(archives);
  await stdoutOf(place, 'backup', join(archives, 'berth.tar'));
  assert.equal(await serve.kill('SIGTERM'), 0);
  await stdoutOf(restored, 'restore', join(archives, 'berth.tar'));

  const sqlite = new Sqlite(config.databaseFile, { readonly: true });
  t.after(() => sqlite.close());
  const hash = sqlite.prepare<[], string>('select password_hash from directories').pluck().get() ?? '';
  const secrets = [key, data.sftp_password, data.webhook_secret, hash];
  assert.ok(secrets.every((secret) => secret.length >= 20));
  const archived = secretFiles(archives, secrets);
  assert.deepEqual(archived, ['berth.tar']);
  for (const { dir } of [place, restored]) {
    const found = secretFiles(dir, secrets);
    for (const known of [/state\/berth\.db$/, /tls\/key\.pem$/, /hostkeys\/\w+_key$/]) {
      assert.ok(
        found.some((name) => known.test(name)),
        `${String(known)} is among ${found.join(' ')} in ${dir}`,
      );
    }
  }
});

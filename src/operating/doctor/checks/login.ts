/**
 * Tries the whole service with a test directory: creates it over the API, logs in by password and by key, uploads files, and deletes it.
 * It belongs to an account of the doctor's own, which is removed with its key and its history. If a doctor was killed, the next one
 * removes what it left.
 */
import { setTimeout } from 'node:timers/promises';
import { createAccount } from '../../../rules/accounts/accounts.ts';
import { createKey } from '../../../rules/api-keys/api-keys.ts';
import type { Clock } from '../../../foundation/base/clock.ts';
import type { Config } from '../../../foundation/base/config.ts';
import { inspect } from '../../../foundation/db/inspect.ts';
import { type Database, openDatabase } from '../../../foundation/db/open.ts';
import { type ApiAnswer, requestApi } from '../api.ts';
import { type Check, fail, type Finding, ok } from '../finding.ts';
import { command, serveProcess } from '../processes.ts';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathsOf } from '../../../machine/sftp/paths.ts';

/** The name of the account, of its key and of its directory. */
const NAME = 'berth doctor';

/** How long an upload may take to be listed, and a directory to be removed. */
const TIMEOUT_MS = 10_000;

interface Directory {
  readonly id: string;
  readonly sftp_host: string;
  readonly sftp_port: number;
  readonly sftp_username: string;
  readonly sftp_password: string;
}

/** A request with the doctor's key; the path is relative to /api/v1. */
type Send = (method: string, path: string, json?: unknown) => Promise<ApiAnswer>;

export const checkLogin: Check = async (config, clock) => {
  // An old service also must not have its database created or migrated by the opening below.
  if (serveProcess(config) === undefined || (await isOld(config))) {
    return [fail('no login was tried: no berth serve of this version runs', 'systemctl restart berth')];
  }
  await using issued = await issueKey(config, clock);
  const send: Send = (method, path, json) =>
    requestApi(config, { method, path: `/api/v1${path}`, key: issued.key, json });
  const listed = await send('GET', '/directories');
  if (listed.status !== 200) return [unexpected('listing directories', listed)];
  // Left by a doctor that was killed.
  for (const { id } of (listed.json as { data: Directory[] }).data) await send('DELETE', `/directories/${id}`);
  const created = await send('POST', '/directories', { directory: { name: NAME, retention_days: 1 } });
  if (created.status !== 201) return [unexpected('creating a directory', created)];
  const directory = (created.json as { data: Directory }).data;
  const { sftp_host: host, sftp_port: port } = directory;
  try {
    if (config.node !== '' && (host !== config.sftp.host || port !== config.sftp.port)) {
      return [
        ok(`new directories go to ${host}:${port} now, so no login was tried here: run berth doctor --login there`),
      ];
    }
    return [await tryLogins(config, directory, send)];
  } finally {
    await send('DELETE', `/directories/${directory.id}`);
  }
};

async function isOld({ database }: Config): Promise<boolean> {
  await using inspection = await inspect(database);
  return (await inspection.schema()).missing.length > 0;
}

/** An admin key of the doctor's account, valid until it is disposed of. */
async function issueKey(config: Config, clock: Clock): Promise<AsyncDisposable & { readonly key: string }> {
  await using parts = new AsyncDisposableStack();
  const database = parts.adopt(await openDatabase(config.database), (opened) => opened.close());
  const { db } = database;
  const found = await db.selectFrom('accounts').select('id').where('name', '=', NAME).executeTakeFirst();
  const { id } = found ?? (await createAccount({ database, clock }, { name: NAME, plan: 'business' }));
  parts.defer(() => removeAccount(database, id));
  const { key } = await createKey({ database, clock, config }, { accountId: id }, { role: 'admin', name: NAME });
  const owned = parts.move();
  return { key, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Removes the keys at once, and everything else once its directories' rows are gone and its sessions have ended. */
async function removeAccount({ db }: Database, id: string): Promise<void> {
  await db.deleteFrom('api_keys').where('account_id', '=', id).execute();
  const isBusy = async (): Promise<boolean> => {
    const directory = await db.selectFrom('directories').select('id').where('account_id', '=', id).executeTakeFirst();
    const sessions = await db
      .selectFrom('transfers')
      .select(({ fn }) => fn.countAll<number>().as('rows'))
      .where('account_id', '=', id)
      .where('event', 'in', ['session-opened', 'session-closed'])
      .executeTakeFirstOrThrow();
    return directory !== undefined || sessions.rows % 2 === 1;
  };
  for (let waited = 0; (await isBusy()) && waited < TIMEOUT_MS; waited += 100) await setTimeout(100);
  await db.transaction().execute(async (tx) => {
    const known = tx.selectFrom('transfers').select('directory_id').where('account_id', '=', id);
    await tx
      .deleteFrom('daily_totals')
      .where((eb) => eb.or([eb('owner_id', 'in', known), eb('owner_id', '=', id)]))
      .execute();
    await tx.deleteFrom('transfers').where('account_id', '=', id).execute();
    await tx.deleteFrom('audit').where('account_id', '=', id).execute();
    await tx
      .deleteFrom('accounts')
      .where('id', '=', id)
      .where('id', 'not in', (from) => from.selectFrom('directories').select('account_id'))
      .execute();
  });
}

async function tryLogins(config: Config, directory: Directory, send: Send): Promise<Finding> {
  await using client = await openSftpClient(config, directory.sftp_username);
  const password = directory.sftp_password;
  const byPassword = await client.put('by-password', password);
  if (byPassword !== undefined) return refused('password', byPassword);
  const patch = { directory: { auth_mode: 'public_key', public_key: client.publicKey } };
  const changed = await send('PATCH', `/directories/${directory.id}`, patch);
  if (changed.status !== 200) return unexpected('setting a key', changed);
  const byKey = await client.put('by-key');
  if (byKey !== undefined) return refused('key', byKey);
  if ((await client.put('by-old-password', password)) === undefined) {
    const text = 'a login by password succeeded although the mode is public_key';
    return fail(text, 'berth prepare, then restart berth-sshd');
  }
  const missing = await missingUploads(directory, send);
  if (missing.length > 0) {
    const text = `uploaded, but not listed after ${TIMEOUT_MS / 1000} s: ${missing.join(', ')}`;
    return fail(text, 'restart berth, which does not receive the transfer log');
  }
  return ok('logins by password and by key work, and their uploads are listed; all of it is deleted again');
}

function unexpected(what: string, { status }: ApiAnswer): Finding {
  return fail(`${what} is answered ${status}`, 'see the reason: journalctl -u berth');
}

function refused(method: string, output: string): Finding {
  return fail(`a login by ${method} is refused: ${output}`, 'see the reason: journalctl -u berth-sshd');
}

async function missingUploads({ id }: Directory, send: Send): Promise<string[]> {
  for (let waited = 0; ; waited += 100) {
    const { json } = await send('GET', `/directories/${id}/uploads`);
    const names = (json as { data: { filename: string }[] }).data.map(({ filename }) => filename);
    const missing = ['by-password', 'by-key'].filter((name) => !names.includes(name));
    if (missing.length === 0 || waited >= TIMEOUT_MS) return missing;
    await setTimeout(100);
  }
}

// Runs OpenSSH's own `sftp`, which logs in to our sshd as a customer would, and trusts only our host keys.

/** Our sshd in known_hosts. OpenSSH would look up an address with its port, unless that is 22. */
const ALIAS = 'berth';

interface SftpClient extends AsyncDisposable {
  /** The public half of a key pair made for this client. */
  readonly publicKey: string;
  /** Uploads a small file: by password if one is given, otherwise by key. Returns the error, if there was one. */
  put(name: string, password?: string): Promise<string | undefined>;
}

export async function openSftpClient(config: Config, username: string): Promise<SftpClient> {
  const folder = mkdtempSync(join(config.stateDir, 'doctor-'));
  const { port } = config.sftp;
  const file = (name: string): string => join(folder, name);
  await command('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file('key')]);
  writeFileSync(file('askpass'), '#!/bin/sh\nprintf \'%s\\n\' "$SECRET"\n', { mode: 0o700 });
  writeFileSync(file('content'), 'from berth doctor\n');
  const { hostKeys } = pathsOf(config);
  const publicKeys = readdirSync(hostKeys).filter((name) => /^ssh_host_\w+_key\.pub$/.test(name));
  const known = publicKeys.map((name) => `${ALIAS} ${readFileSync(join(hostKeys, name), 'utf8')}`);
  writeFileSync(file('known_hosts'), known.join(''));
  const options = [
    'StrictHostKeyChecking=yes',
    `HostKeyAlias=${ALIAS}`,
    `UserKnownHostsFile=${file('known_hosts')}`,
    'GlobalKnownHostsFile=/dev/null',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `IdentityFile=${file('key')}`,
    'NumberOfPasswordPrompts=1',
    'ConnectTimeout=10',
    'LogLevel=ERROR',
  ];

  return {
    publicKey: readFileSync(file('key.pub'), 'utf8').trim(),
    async put(name, password) {
      const method = `PreferredAuthentications=${password === undefined ? 'publickey' : 'password'}`;
      const args = [...options, method].flatMap((option) => ['-o', option]);
      const { status, stdout, stderr } = await command(
        'sftp',
        ['-F', '/dev/null', ...args, '-P', `${port}`, `${username}@127.0.0.1`],
        {
          cwd: folder,
          // Commands come on standard input, since -b forbids the password prompt.
          input: `put content ${name}\n`,
          env: { SSH_ASKPASS: file('askpass'), SSH_ASKPASS_REQUIRE: 'force', SECRET: password },
        },
      );
      if (status === 0) return undefined;
      const output = `${stdout}\n${stderr}`
        .split(/[\r\n]+/)
        .filter((line) => line.trim() !== '' && !line.startsWith('sftp>'));
      return output.join('; ') || `sftp ended with ${status}`;
    },
    async [Symbol.asyncDispose]() {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

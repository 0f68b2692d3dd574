/**
 * The whole way through, with a throw-away directory: made over the API, logged in to by password and by key, uploaded to,
 * and deleted. It belongs to an account of the doctor's own, whose key exists only meanwhile.
 */
import { setTimeout } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { lookAt } from '../../db/look.ts';
import { type Account, openDoctorsAccount } from '../account.ts';
import { type ApiAnswer, askApi } from '../api.ts';
import { type Check, fail, type Finding, ok } from '../finding.ts';
import { serveProcess } from '../lock-holder.ts';
import { openSftpClient, type SftpClient } from '../sftp-client.ts';

/** How long an upload may take to be seen, in ms. */
const PATIENCE = 10_000;

interface Made {
  readonly id: string;
  readonly sftp_username: string;
  readonly sftp_password: string;
}

type Ask = (method: string, path: string, json?: unknown) => Promise<ApiAnswer>;

export function loginCheck(config: Config, clock: Clock): Check {
  return {
    name: 'login',
    async run() {
      // Also because opening the database would make or migrate it.
      if (serveProcess(config) === undefined || (await isOld(config))) {
        return [fail('no login was tried, since no berth serve of this version runs', 'systemctl restart berth')];
      }
      await using account = await openDoctorsAccount(config, clock);
      const ask: Ask = (method, path, json) =>
        askApi(config, { method, path: `/api/v1${path}`, key: account.key, json });
      await removeLeftovers(account, ask);
      const created = await ask('POST', '/directories', { directory: { name: 'berth doctor', retention_days: 1 } });
      if (created.status !== 201)
        return [fail(`creating a directory is answered ${created.status}`, 'journalctl -u berth')];
      const directory = (created.json as { data: Made }).data;
      try {
        return await tryLogins(config, directory, ask);
      } finally {
        await ask('DELETE', `/directories/${directory.id}`);
      }
    },
  };
}

async function isOld({ databaseFile }: Config): Promise<boolean> {
  await using look = lookAt(databaseFile);
  return look.schema().missing.length > 0;
}

async function tryLogins(config: Config, directory: Made, ask: Ask): Promise<Finding[]> {
  await using client = await openSftpClient(config, directory.sftp_username);
  const password = directory.sftp_password;
  const byPassword = await client.put('by-password', { password });
  if (byPassword !== undefined) return [refused('password', byPassword)];
  const patch = { directory: { auth_mode: 'public_key', public_key: client.publicKey } };
  const changed = await ask('PATCH', `/directories/${directory.id}`, patch);
  if (changed.status !== 200) return [fail(`setting a key is answered ${changed.status}`, 'journalctl -u berth')];
  const byKey = await client.put('by-key', {});
  if (byKey !== undefined) return [refused('key', byKey)];
  if ((await client.put('by-old-password', { password })) === undefined) {
    return [
      fail('a login by password was let in although the mode is public_key', 'berth prepare, then restart berth-sshd'),
    ];
  }
  const missing = await uploadsMissing(directory, ask, client);
  if (missing.length > 0) {
    return [
      fail(
        `uploaded, but not listed after ${PATIENCE / 1000} s: ${missing.join(', ')}`,
        'restart berth: the transfer log does not reach it',
      ),
    ];
  }
  return [ok('logins by password and by key work, what they upload is seen; all of it is deleted again')];
}

function refused(method: string, said: string): Finding {
  return fail(`a login by ${method} is refused: ${said}`, 'sshd says why: journalctl -u berth-sshd');
}

async function uploadsMissing({ id }: Made, ask: Ask, { uploaded }: SftpClient): Promise<string[]> {
  for (let waited = 0; ; waited += 100) {
    const { json } = await ask('GET', `/directories/${id}/uploads`);
    const names = (json as { data: { filename: string }[] }).data.map(({ filename }) => filename);
    const missing = uploaded.filter((name) => !names.includes(name));
    if (missing.length === 0 || waited >= PATIENCE) return missing;
    await setTimeout(100);
  }
}

/** Of a doctor that was ended half-way. */
async function removeLeftovers({ directories }: Account, ask: Ask): Promise<void> {
  for (const id of directories) await ask('DELETE', `/directories/${id}`);
}

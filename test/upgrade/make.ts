/**
 * Makes the state folder and jails of a berth, for `upgrade.test.ts` of later ones. Run it in a checkout of the commit
 * that is to be kept, then commit what it wrote:
 *
 *   node test/upgrade/make.ts FOLDER
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startBerth } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { keyPair } from '../support/sftp-user.ts';

const [folder = '.'] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
using place = scratch();
await using berth = await startBerth(place);

async function put(login: Parameters<typeof sftp>[1], name: string): Promise<void> {
  const source = join(place.dir, 'source');
  writeFileSync(source, name);
  const commands = [...(name.includes('/') ? [`-mkdir ${name.split('/', 1)[0]}`] : []), `put ${source} ${name}`];
  const { code, output } = await sftp(place.dir, login, commands);
  if (code !== 0) throw new Error(output);
}

const byPassword = await berth.directory();
const byKey = await berth.directory();
const byBoth = await berth.directory();
const unreached = await berth.directory();
const { file, publicKey } = keyPair(place.dir);
for (const [{ id }, mode] of [
  [byKey, 'public_key'],
  [byBoth, 'both'],
] as const) {
  const auth = { auth_mode: mode, public_key: publicKey };
  const { status, text } = await berth.send('PATCH', `/directories/${id}`, { json: { directory: auth } });
  if (status !== 200) throw new Error(text);
}
await berth.send('PATCH', `/directories/${unreached.id}`, {
  json: { directory: { webhook_url: 'http://127.0.0.1:1/' } },
});
for (const name of ['one', 'in/two', 'unnamed.part']) await put(byPassword.login, name);
await put({ ...byKey.login, password: undefined, keyFile: file }, 'three');
await put({ ...byBoth.login, keyFile: file }, 'four');
await put(unreached.login, 'late');
const connection = await connect(byPassword.login);
const session = await rawSftp(connection);
await session.put(Buffer.from('not UTF-8 \xff', 'latin1'), 'x');
const half = await session.open('half', CREATE_ANEW);
if (!half) throw new Error('not opened');
connection.drop();
await Promise.all(Array.from({ length: 6 }, () => berth.receiver.next()));
const sqlite = new Sqlite(berth.config.databaseFile, { readonly: true });
const late = sqlite.prepare<[], { id: string; attempts: number }>(
  "select id, attempts from deliveries where state = 'waiting'",
);
await until('the first attempt of the last has failed', () => late.get()?.attempts === 1);
const partial = sqlite.prepare("select 1 from files where state = 'partial'");
await until('the half file is recorded', () => partial.get() !== undefined);
const living = await connect(byPassword.login);
await (await rawSftp(living)).put('waits.part', 'waits');
const waiting = sqlite.prepare("select 1 from files where state = 'waiting'");
await until('it waits for its session', () => waiting.get() !== undefined);

const account = sqlite.prepare<[], string>('select account_id from directories').pluck().get() ?? '';
const database = await openDatabase(berth.config.database);
const issuer = { database, clock: systemClock(), config: berth.config };
const { key } = await createKey(issuer, { accountId: account }, { role: 'admin', name: 'kept' });
await database.close();
const directories = await Promise.all(
  [byPassword, byKey, byBoth, unreached].map(async (directory) => ({
    id: directory.id,
    username: directory.username,
    password: directory.password,
    secret: directory.secret,
    storage: await berth.storage(directory),
    uploads: await berth.uploads(directory),
  })),
);
const delivery = late.get()?.id;
sqlite.close();
await berth.stop();
living.drop();
const kept = { waiting: ['waits.part'], key, privateKey: readFileSync(file, 'utf8'), delivery, directories };
writeFileSync(join(folder, 'expected.json'), `${JSON.stringify(kept, undefined, 2)}\n`);
const names = [berth.config.stateDir, berth.config.jailDir].map((path) => path.slice(place.dir.length + 1));
// Times to the nanosecond, and no socket.
const options = ['--format=posix', '--warning=no-file-ignored', '--numeric-owner', '--exclude=serve.lock'];
execFileSync('tar', ['-C', place.dir, '-czf', join(folder, 'kept.tar.gz'), ...options, ...names]);

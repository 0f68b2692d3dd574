/** A database that is damaged or gone: one line that says so and exit status 1, and nothing in its place. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Sqlite from 'better-sqlite3';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { issueKey } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { TIMEOUT_SECONDS } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { directory, hostOf } from '../support/sftp-user.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Runs a command of berth, which has to end on its own. */
function berth(place: Scratch, ...words: string[]): { status: number | null; lines: string[] } {
  const env = { ...nodeEnvironment, ...place.environment };
  const { status, stderr } = spawnSync(process.execPath, [MAIN, ...words], {
    env,
    encoding: 'utf8',
    timeout: TIMEOUT_SECONDS * 1000,
  });
  return { status, lines: stderr.trim().split('\n') };
}

/** A database with an account, a key and some hundred pages of principals, all in one file. */
async function made(place: Scratch): Promise<string> {
  const file = place.config.databaseFile;
  mkdirSync(place.config.stateDir, { recursive: true });
  await issueKey(place.config);
  const database = await openDatabase(file);
  const rows = Array.from({ length: 10_000 }, (_, uid) => ({ uid, username: `user-${uid}` }));
  for (let at = 0; at < rows.length; at += 1000) {
    await database.db
      .insertInto('principals')
      .values(rows.slice(at, at + 1000))
      .execute();
  }
  await database.close();
  return file;
}

function overwrite(file: string, at: number): void {
  const fd = openSync(file, 'r+');
  writeSync(fd, Buffer.alloc(4096, 'garbage!'), 0, 4096, at);
  closeSync(fd);
}

const DAMAGES: readonly [name: string, damage: (file: string) => void, says: RegExp][] = [
  ['whose head is overwritten', (file) => overwrite(file, 0), /berth\.db is damaged \(.*\): .*restore a backup/],
  [
    'with a damaged page in the middle',
    (file) => overwrite(file, 4096 * 30),
    /berth\.db is damaged \(.*\): .*restore a backup/,
  ],
  [
    'that is cut in half',
    (file) => truncateSync(file, 4096 * Math.floor(statSync(file).size / 8192)),
    /berth\.db is damaged \(.*\): .*restore a backup/,
  ],
  [
    'beside a write-ahead log of garbage',
    (file) => copyFileSync(MAIN, `${file}-wal`),
    /berth\.db-wal, .* is damaged: /,
  ],
];

for (const [name, damage, says] of DAMAGES) {
  test(`a database ${name} ends serve with one line, and stays as it is`, sqliteOnly, async () => {
    using place = scratch();
    const file = await made(place);
    damage(file);
    const before = readFileSync(file);
    const { status, lines } = berth(place, 'serve');
    assert.equal(status, 1);
    assert.equal(lines.length, 1, lines.join('\n'));
    assert.match(lines[0] ?? '', says);
    assert.ok(readFileSync(file).equals(before), 'it was changed');
  });
}

for (const [name, lose] of [
  ['missing', (file: string) => rmSync(file)],
  ['empty', (file: string) => truncateSync(file, 0)],
] as const) {
  test(
    `a database that is ${name} beside SFTP users is not created again, and they keep what they have`,
    sqliteOnly,
    async () => {
      using place = scratch();
      const file = await made(place);
      const paths = pathsOf(place.config);
      const user = directory();
      {
        await using host = hostOf(paths);
        await host.apply(user);
        lose(file);
        for (const words of [['serve'], ['account', 'create', 'Again', '--plan', 'pro']]) {
          const { status, lines } = berth(place, ...words);
          assert.equal(status, 1);
          assert.equal(lines.length, 1, lines.join('\n'));
          assert.match(
            lines[0] ?? '',
            /is missing or empty, but .*userdb holds SFTP users.*restore the database or a backup/,
          );
        }
        assert.ok(host.isApplied(user));
      }
      assert.equal(existsSync(file) ? statSync(file).size : 0, 0);
    },
  );
}

test(
  'a page that is damaged while serve runs: requests that need it fail with a line that says so, and the file stays',
  sqliteOnly,
  async () => {
    using place = scratch();
    const port = await freePort();
    const config: Config = { ...place.config, api: { host: '127.0.0.1', port } };
    const file = place.config.databaseFile;
    mkdirSync(place.config.stateDir, { recursive: true });
    const key = await issueKey(place.config);
    await using serve = await startServe(config, { ...place.environment, BERTH_API_PORT: String(port) });
    using client = clientOf(config, key);
    const create = () => client.send('POST', '/directories', { json: { directory: { name: 'Acme' } } });
    assert.equal((await create()).status, 201);
    // What was read before is kept in memory: a change by another process makes serve read again.
    const damaged = damageTables(file);
    const answers = await Promise.all([client.send('GET', '/directories'), create(), client.send('GET', '//healthz')]);
    const failed = answers.filter(({ status }) => status >= 500);
    assert.ok(failed.length > 0, answers.map(({ status, text }) => `${status} ${text}`).join());
    for (const { json } of failed) assert.deepEqual(Object.keys(json as object), ['error']);
    assert.match(serve.output(), /malformed|damaged|not a database/);
    assert.ok(statSync(file).size >= damaged.size);
    await serve.kill('SIGTERM');
    const { status, lines } = berth(place, 'serve');
    assert.equal(status, 1);
    assert.match(lines.at(-1) ?? '', /berth\.db is damaged/);
  },
);

/** Overwrites all pages but the first, once the write-ahead log is in the file. */
function damageTables(file: string): { size: number } {
  const sqlite = new Sqlite(file);
  sqlite.pragma('wal_checkpoint(truncate)');
  sqlite.close();
  const { size } = statSync(file);
  for (let at = 4096; at < size; at += 4096) overwrite(file, at);
  const other = new Sqlite(file);
  try {
    other.exec('begin immediate; pragma user_version = 7; commit');
  } catch {
    // As damaged as it is.
  }
  other.close();
  return { size };
}

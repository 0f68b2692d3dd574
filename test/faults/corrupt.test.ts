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
import { openDatabase } from '../../src/db/open.ts';
import { pathsOf } from '../../src/sftp/paths.ts';
import { issueKey } from '../support/berth.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { directory, hostOf } from '../support/sftp-user.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Runs a command of berth to its end, which has to come by itself. */
function berth(place: Scratch, ...words: string[]): { status: number | null; lines: string[] } {
  const env = { PATH: process.env['PATH'], ...place.environment };
  const { status, stderr } = spawnSync(process.execPath, [MAIN, ...words], { env, encoding: 'utf8', timeout: 20_000 });
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
  test(`a database ${name} ends serve with one line, and stays as it is`, async () => {
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
  test(`a database that is ${name} beside SFTP users is not made anew, and they keep what they have`, async () => {
    using place = scratch();
    const file = await made(place);
    const paths = pathsOf(place.config);
    const user = directory();
    {
      await using host = hostOf(paths);
      await host.apply(user);
      lose(file);
      for (const words of [['serve'], ['account', 'create', 'Anew', '--plan', 'pro']]) {
        const { status, lines } = berth(place, ...words);
        assert.equal(status, 1);
        assert.equal(lines.length, 1, lines.join('\n'));
        assert.match(lines[0] ?? '', /is missing or empty, but .*userdb holds SFTP users.*restore a backup/);
      }
      assert.ok(host.isApplied(user));
    }
    assert.equal(existsSync(file) ? statSync(file).size : 0, 0);
  });
}

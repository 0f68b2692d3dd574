/**
 * Deleted rows, which held hashes, keys and webhook secrets, are gone from the file, its write-ahead log and every backup.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { backUp } from '../../src/operating/backup/backup.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { hosted } from '../support/hosted.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const holds = (file: string, secret: string): boolean => existsSync(file) && readFileSync(file).includes(secret);

async function backupOf({ config, dir }: Scratch): Promise<string> {
  const file = join(dir, 'backup');
  const stop = new AbortController().signal;
  await backUp(config, { clock: systemClock(), file, settings: join(dir, 'none'), stop });
  return file;
}

test('a deleted directory leaves none of its secrets behind', sqliteOnly, async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { databaseFile } = place.config;
  const kept = await api.directory();
  const { id } = await api.directory({ description: 'MARK-'.repeat(100) });
  const secretsOf = (directory: string) =>
    api.database.reads
      .selectFrom('directories')
      .select(['webhook_secret', 'password_hash'])
      .where('id', '=', directory)
      .executeTakeFirstOrThrow();
  const secrets = [...Object.values(await secretsOf(id)), 'MARK-MARK-'];
  const files = [databaseFile, `${databaseFile}-wal`];
  for (const secret of secrets) assert.ok(files.some((file) => holds(file, secret)));

  assert.equal((await api.send('DELETE', `/directories/${id}`)).status, 204);
  await api.rules.removal.idle();
  const backup = await backupOf(place);
  for (const secret of secrets) {
    for (const file of [...files, backup]) assert.ok(!holds(file, secret), `${file} holds a deleted secret`);
  }
  const { webhook_secret: live } = await secretsOf(kept.id);
  assert.ok(holds(backup, live), 'and the backup holds the others');
});

test('a backup leaves out what an earlier berth has left in free pages', sqliteOnly, async () => {
  using place = scratch();
  {
    await using _made = await hosted(place);
  }
  const sqlite = new Sqlite(place.config.databaseFile);
  sqlite.pragma('secure_delete = off');
  sqlite.exec("create table old (text); insert into old values ('OLD-SECRET-' || hex(zeroblob(9000))); drop table old");
  sqlite.close();
  assert.ok(holds(place.config.databaseFile, 'OLD-SECRET-'));
  assert.ok(!holds(await backupOf(place), 'OLD-SECRET-'));
});

/** Automatic backups: the newest stay, the last one is noted, and doctor knows its age. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { backUp } from '../../src/operating/backup/backup.ts';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { DAY, type Micros, systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { checkBackups } from '../../src/operating/doctor/checks/backups.ts';
import { lastBackup } from '../../src/foundation/base/last-backup.ts';
import { byHand } from '../support/by-hand.ts';
import { runCommand } from '../support/command-line.ts';
import { scratch } from '../support/scratch.ts';

const START: Micros = Date.UTC(2026, 10, 1, 3, 30) * 1000;

test('the newest archives of a folder stay, and nothing else there is touched', async () => {
  using place = scratch();
  const { config, dir } = place;
  mkdirSync(config.stateDir, { recursive: true });
  await (await openDatabase(config.database)).close();
  const folder = join(dir, 'backups', 'berth');
  const doctor = async (now: Micros) => (await checkBackups(config, { now: () => now }))[0];
  assert.equal(lastBackup(config), undefined);
  assert.match((await doctor(START))?.text ?? '', /no backup yet/);
  const stop = new AbortController().signal;
  for (let day = 0; day < 4; day++) {
    const clock = { now: () => START + day * DAY };
    const { file } = await backUp(config, { clock, file: folder, keep: 2, settings: join(dir, 'none'), stop });
    assert.equal(file, join(folder, `berth-2026110${day + 1}T033000Z.tar`));
    assert.equal(statSync(file).mode & 0o777, 0o600);
    if (day === 0) writeFileSync(join(folder, 'berth-mine.tar'), 'not one of these');
  }
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(folder).toSorted(), [
    'berth-20261103T033000Z.tar',
    'berth-20261104T033000Z.tar',
    'berth-mine.tar',
  ]);
  assert.equal(lastBackup(config), START + 3 * DAY);
  assert.equal((await doctor(START + 4 * DAY))?.verdict, 'ok');
  assert.equal((await doctor(START + 6 * DAY))?.text, 'the last backup is 3 days old');
});

test('doctor warns if there is data but no backup; the command takes --keep', async () => {
  using place = scratch();
  const { config, dir } = place;
  mkdirSync(config.stateDir, { recursive: true });
  const database = await openDatabase(config.database);
  const { id: accountId } = await createAccount({ database, clock: systemClock() }, { name: 'A', plan: 'business' });
  await database.close();
  const columns =
    'id, account_id, slug, node, version, name, metadata, sftp_host, sftp_port, sftp_username, uid, password_hash, webhook_secret, storage_bytes, retention_days, max_connections, auth_mode, suspended, allowed_networks, inserted_at, updated_at';
  byHand(
    config,
    `insert into principals (uid, username) values (1, 'u'); insert into directories (${columns}) values ('d', '${accountId}', 's', '${config.node}', 1, 'n', '{}', 'h', 1, 'u', 1, 'p', 'w', 0, 0, 1, 'password', 0, '[]', ${START}, ${START})`,
  );
  const doctor = async (now: Micros) => (await checkBackups(config, { now: () => now }))[0];
  assert.equal((await doctor(START + DAY))?.verdict, 'ok');
  assert.deepEqual((await doctor(START + 3 * DAY))?.text, 'there is no backup');
  const folder = join(dir, 'kept');
  for (const time of ['first', 'second']) {
    assert.equal((await runCommand(place.environment, 'backup', '--keep', '1', folder)).status, 0, time);
  }
  assert.equal(readdirSync(folder).length, 1);
  assert.equal((await checkBackups(config, { now: () => Date.now() * 1000 }))[0]?.verdict, 'ok');
});

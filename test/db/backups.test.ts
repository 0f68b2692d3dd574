/** Automatic backups: the newest stay, the last one is noted, and doctor knows its age. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { DAY, type Micros, systemClock } from '../../src/foundation/base/clock.ts';
import { lastBackup } from '../../src/foundation/base/last-backup.ts';
import { settingsIn } from '../../src/foundation/base/settings-file.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { backUp } from '../../src/operating/backup/backup.ts';
import { checkBackups } from '../../src/operating/doctor/checks/database.ts';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { byHand } from '../support/by-hand.ts';
import { runCommand } from '../support/command-line.ts';
import { copyEmptyDatabase } from '../support/empty-database.ts';
import { sqliteOnly } from '../support/postgres.ts';
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

// `berth restore` on a machine with settings: the backup's are used, or the operator chooses; nothing is restored
// before.

const BACKED_UP = `# The settings.
BERTH_WEBHOOK_ALLOW=10.0.0.0/8
BERTH_CHECK="clamd:/run/clamav/clamd.ctl"
BERTH_OIDC_CLIENT_SECRET=hunter2
BERTH_OIDC_ISSUER=https://login.example.com
BERTH_OIDC_CLIENT_ID=berth
BERTH_OIDC_MAP="staff=0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10:member"
`;
const TEMPLATE = '# Commented lines show the defaults.\n#BERTH_CHECK=\n\n';

const first = scratch();
const archive = join(first.dir, 'backup.tar');

before(async () => {
  const settings = join(first.dir, 'berth.env');
  writeFileSync(settings, BACKED_UP);
  copyEmptyDatabase(first.config);
  const { status, stderr } = await runCommand(first.environment, 'backup', '--settings', settings, archive);
  assert.equal(status, 0, stderr);
  return () => first[Symbol.dispose]();
});

async function restored(own: string | undefined, ...options: string[]) {
  const place = scratch();
  const settings = join(place.dir, 'berth.env');
  if (own !== undefined) writeFileSync(settings, own);
  // As scripts/berth runs it: with the machine's settings in the environment.
  const outcome = await runCommand(
    { ...place.environment, ...Object.fromEntries(settingsIn(own ?? '')) },
    'restore',
    '--settings',
    settings,
    ...options,
    archive,
  );
  const text = (name: string): string | undefined =>
    existsSync(join(place.dir, name)) ? readFileSync(join(place.dir, name), 'utf8') : undefined;
  const kept = readdirSync(place.dir).find((name) => name.startsWith('berth.env.before-restore-'));
  const isRestored = existsSync(place.config.databaseFile);
  const files = { now: text('berth.env'), beside: text('berth.env.restored'), kept: kept && text(kept) };
  place[Symbol.dispose]();
  return { ...outcome, ...files, isRestored };
}

const OTHERS = `${BACKED_UP.replace('hunter2', 'other')}BERTH_SFTP_PORT=22\n`;

test('a template or no file gives way to the settings of the backup', sqliteOnly, async () => {
  for (const own of [TEMPLATE, undefined]) {
    const { status, stdout, stderr, now, beside, kept, isRestored } = await restored(own);
    assert.equal(status, 0, stderr);
    assert.deepEqual([now, beside, kept, isRestored], [BACKED_UP, undefined, own, true]);
    assert.match(stdout, /The settings are now those of the backup: see \S+berth\.env\n/);
  }
});

test('other settings stop the restore, which shows the differences but no secret', sqliteOnly, async () => {
  const { status, stderr, now, beside, isRestored } = await restored(OTHERS);
  assert.deepEqual([status, now, beside, isRestored], [1, OTHERS, undefined, false]);
  assert.match(stderr, /BERTH_SFTP_PORT is not set in the backup and 22 here/);
  assert.match(stderr, /BERTH_OIDC_CLIENT_SECRET is a secret in the backup and a secret here/);
  assert.match(stderr, /--settings-of backup .* --settings-of machine/);
  assert.doesNotMatch(stderr, /hunter2|BERTH_CHECK/);
});

test('the operator chooses whose settings to use', sqliteOnly, async () => {
  const machine = await restored(OTHERS, '--settings-of', 'machine');
  assert.equal(machine.status, 0, machine.stderr);
  assert.deepEqual([machine.now, machine.beside, machine.isRestored], [OTHERS, BACKED_UP, true]);
  assert.match(machine.stdout, /berth\.env\.restored, and are not in use/);
  const backup = await restored(OTHERS, '--settings-of', 'backup');
  assert.equal(backup.status, 0, backup.stderr);
  assert.deepEqual([backup.now, backup.beside, backup.kept, backup.isRestored], [BACKED_UP, undefined, OTHERS, true]);
});

test('the same settings in another order, or with comments, are no difference', sqliteOnly, async () => {
  const own = `#\n${BACKED_UP.split('\n')
    .filter((line) => !line.startsWith('#'))
    .toReversed()
    .join('\n')}`;
  const { status, stderr, now, beside } = await restored(own);
  assert.equal(status, 0, stderr);
  assert.deepEqual([now, beside], [own, undefined]);
});

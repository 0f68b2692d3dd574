/** The disk after a crash or a restored backup: repaired, or reported, but no data is ever touched. */
import assert from 'node:assert/strict';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLog } from '../../../src/foundation/base/log.ts';
import { pathsOf } from '../../../src/machine/sftp/paths.ts';
import { reconcile } from '../../../src/machine/sftp/reconcile.ts';
import { scratch } from '../../support/scratch.ts';
import { directory, hostOf } from '../../support/sftp-user.ts';

test('repairs what differs, takes credentials away that no row explains, and leaves unknown data alone', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const rows = Array.from({ length: 450 }, () => directory()).sort((a, b) => (a.id < b.id ? -1 : 1));
  for (const row of rows) await host.apply(row);
  const [broken, unknown, jailless] = [
    rows[3],
    directory({ public_key: 'ssh-ed25519 A', auth_mode: 'both' }),
    rows[449],
  ];
  assert.ok(broken && jailless);
  await host.apply(unknown);
  writeFileSync(join(paths.jail(unknown.sftp_username), 'files', 'theirs'), 'data');
  unlinkSync(join(paths.userdb, `${broken.sftp_username}.user`));
  await host.remove(jailless);
  mkdirSync(join(paths.jails, 'lost+found'));

  const lines: { msg: string; name?: string; username?: string }[] = [];
  const reapplied: string[] = [];
  const run = () =>
    reconcile({
      paths,
      host,
      log: createLog('info', { write: (line) => void lines.push(JSON.parse(line)) }),
      signal: new AbortController().signal,
      rows: (after, limit) => rows.filter(({ id }) => id > after).slice(0, limit),
      reapply: async (id) => {
        reapplied.push(id);
        const row = rows.find((candidate) => candidate.id === id);
        if (row) await host.apply(row);
      },
    });

  const found = await run();
  assert.deepEqual(reapplied, [broken.id, jailless.id]);
  assert.deepEqual([found.checked, found.repaired, found.failed], [450, 2, 0]);
  assert.deepEqual(found.credentialsRemoved, [unknown.sftp_username]);
  // lost+found is the file system's own.
  assert.deepEqual([...found.strangers], [unknown.sftp_username]);
  assert.ok(existsSync(join(paths.jails, 'lost+found')));
  assert.equal(lines.length, 2);
  assert.ok(existsSync(join(paths.jail(unknown.sftp_username), 'files', 'theirs')));
  assert.equal(existsSync(join(paths.authorizedKeys, unknown.sftp_username)), false);
  assert.equal(readdirSync(paths.limits).includes(unknown.sftp_username), false);

  const again = await run();
  assert.deepEqual([again.repaired, again.credentialsRemoved], [0, []]);
});

test('one directory that cannot be repaired does not keep the others from it', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const rows = [directory(), directory()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const found = await reconcile({
    paths,
    host,
    log: createLog('silent'),
    signal: new AbortController().signal,
    rows: (after) => rows.filter(({ id }) => id > after),
    reapply: async (id) => {
      if (id === rows[0]?.id) throw new Error('the disk refuses');
      if (rows[1]) await host.apply(rows[1]);
    },
  });
  assert.deepEqual([found.repaired, found.failed], [1, 1]);
});

// Every file of a directory damaged in place, or something else in place of its jail: repaired or reported, never
// made worse.

test('damaged records, keys and limits and missing jails are made again; what is no jail is reported and left', async () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using host = hostOf(paths);
  const rows = Array.from({ length: 8 }, () => directory({ public_key: 'ssh-ed25519 A', auth_mode: 'both' })).toSorted(
    (a, b) => (a.id < b.id ? -1 : 1),
  );
  for (const row of rows) await host.apply(row);
  const names = rows.map(({ sftp_username: name }) => name);
  const [record = '', secret = '', keys = '', limit = '', jail = '', files = '', link = '', whole = ''] = names;
  const damaged = [
    join(paths.userdb, `${record}.user`),
    join(paths.userdb, `${secret}.user-privileged`),
    join(paths.authorizedKeys, keys),
    join(paths.limits, limit),
  ];
  const before = damaged.map((file) => readFileSync(file, 'utf8'));
  for (const file of damaged) writeFileSync(file, 'garb{age\0');
  rmSync(paths.jail(jail), { recursive: true });
  rmSync(join(paths.jail(files), 'files'), { recursive: true });
  rmSync(paths.jail(link), { recursive: true });
  const outside = join(place.dir, 'outside');
  mkdirSync(outside);
  symlinkSync(outside, paths.jail(link));
  mkdirSync(join(paths.jails, 'foreign'));
  writeFileSync(join(paths.jails, 'foreign', 'theirs'), 'data');

  const lines: string[] = [];
  const run = () =>
    reconcile({
      paths,
      host,
      log: createLog('info', { write: (line) => void lines.push(line) }),
      signal: new AbortController().signal,
      rows: (after, count) => rows.filter(({ id }) => id > after).slice(0, count),
      reapply: async (id) => {
        const row = rows.find((candidate) => candidate.id === id);
        if (row) await host.apply(row);
      },
    });
  const found = await run();
  assert.deepEqual(
    damaged.map((file) => readFileSync(file, 'utf8')),
    before,
  );
  for (const name of [jail, files, whole]) assert.ok(lstatSync(join(paths.jail(name), 'files')).isDirectory());
  assert.deepEqual([found.checked, found.repaired, found.failed], [8, 6, 1]);
  // A link where a jail should be leads root nowhere.
  assert.deepEqual(readdirSync(outside), []);
  assert.deepEqual(found.strangers, ['foreign']);
  assert.equal(readFileSync(join(paths.jails, 'foreign', 'theirs'), 'utf8'), 'data');
  assert.deepEqual([lines.filter((line) => line.includes('could not repair')).length, lines.length], [1, 2]);
  const { repaired, failed } = await run();
  assert.deepEqual([repaired, failed], [0, 1]);
});

/**
 * Every file of a directory damaged in place, or something else in place of its jail: repaired or reported, never made
 * worse.
 */
import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLog } from '../../../src/foundation/base/log.ts';
import { pathsOf } from '../../../src/machine/sftp/paths.ts';
import { reconcile } from '../../../src/machine/sftp/reconcile.ts';
import { scratch } from '../../support/scratch.ts';
import { directory, hostOf } from '../../support/sftp-user.ts';

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

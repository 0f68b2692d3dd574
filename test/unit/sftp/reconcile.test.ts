/** The disk after a crash or a restored backup: repaired, or reported, but no data is ever touched. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs';
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

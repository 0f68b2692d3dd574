/** `berth backup` and `restore` of a machine on PostgreSQL, whose database the operator dumps and brings back. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { issueKey, startBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { apiClient } from '../support/api-client.ts';
import { runCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { runSshd } from '../support/sshd.ts';

const put = async (place: Scratch, login: TestDirectory['login'], name: string): Promise<void> => {
  const source = join(place.dir, 'source');
  writeFileSync(source, name);
  assert.equal((await sftp(place.dir, login, [`put ${source} ${name}`])).code, 0);
};

/** What an operator does. */
function dump(place: Scratch, name: string): string {
  const file = join(place.dir, name);
  execFileSync('pg_dump', ['-Fc', '-f', file, '-d', place.config.database]);
  return file;
}

function bringBack(url: string, file: string): void {
  execFileSync('pg_restore', ['--no-owner', '-d', url, file]);
}

test(
  'on a second machine, with the database from a dump: logins and rows as before, no webhook twice',
  postgresOnly,
  async () => {
    using first = scratch({ BERTH_NODE: 'one' });
    const archive = join(first.dir, 'berth.tar');
    await using berth = await startBerth(first);
    const directory = await berth.directory();
    await put(first, directory.login, 'old');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'old');
    // Removed, and on the disk for its session when it is backed up and copied.
    await using connection = await berth.connect(directory);
    await (await sftpSession(connection)).put('removed', 'x');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'removed');
    const [removed] = await berth.uploads(directory);
    assert.equal((await berth.send('DELETE', `/directories/${directory.id}/uploads/${removed?.id}`)).status, 204);
    execFileSync('cp', ['-a', join(directory.files, 'removed'), join(first.dir, 'removed')]);
    const made = await runCommand(first.environment, 'backup', archive);
    assert.equal(made.status, 0, made.stderr);
    assert.match(made.stdout, /^The database postgres:.* is not in it: dump it now/m);
    assert.doesNotMatch(made.stdout, /berth\.db/);
    const dumped = dump(first, 'dump');
    await put(first, directory.login, 'new');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'new');
    const unknown = await berth.directory();
    await berth.stop();

    const to = freshDatabase('template0');
    using second = scratch({ BERTH_NODE: 'one', BERTH_DATABASE_URL: to.url });
    try {
      bringBack(to.url, dumped);
      execFileSync('cp', ['-a', first.config.jailDir, second.config.jailDir]);
      const files = join(second.config.jailDir, directory.username, 'files');
      execFileSync('cp', ['-a', join(first.dir, 'removed'), files]);
      const report = await runCommand(second.environment, 'restore', archive);
      assert.equal(report.status, 0, report.stderr);
      assert.match(report.stdout, /: 1 directory, 2 files, 0 webhooks to be sent/);
      const hostKey = 'hostkeys/ssh_host_ed25519_key';
      assert.deepEqual(
        readFileSync(join(second.config.stateDir, hostKey)),
        readFileSync(join(first.config.stateDir, hostKey)),
      );
      assert.equal(existsSync(second.config.databaseFile), false);

      const config: Config = {
        ...second.config,
        sftp: { ...second.config.sftp, port: await freePort() },
        webhooks: berth.config.webhooks,
      };
      await prepareSshd(config, createLog('silent'));
      await using _sshd = await runSshd(config);
      const service = await startService(config, { log: createLog('error') });
      try {
        await service.covered;
        await put(second, { ...directory.login, port: config.sftp.port }, 'newest');
        const names = [await berth.receiver.next(), await berth.receiver.next()].map(
          (request) => webhookOf(request).filename,
        );
        assert.deepEqual(names.toSorted(), ['new', 'newest']);
        await until('the removed file has gone', () => !existsSync(join(files, 'removed')));
        using client = apiClient({
          port: service.port,
          ca: readFileSync(config.tls.cert),
          key: await issueKey(config),
        });
        const { status } = await client.send('POST', '/directories', { json: { directory: { name: 'Later' } } });
        assert.equal(status, 201);
        const uid = Number(psql(to.url, 'select max(uid) from directories'));
        assert.ok(
          uid > statSync(join(second.config.jailDir, unknown.username, 'files')).uid,
          'a UID was given out again',
        );
      } finally {
        await service.close();
      }
    } finally {
      to.drop();
    }
  },
);

test(
  'a database or a machine that the backup does not fit is refused, and nothing has changed',
  postgresOnly,
  async (t) => {
    using first = scratch({ BERTH_NODE: 'one' });
    await (await openDatabase(first.config.database)).close();
    const archive = join(first.dir, 'berth.tar');
    const before = dump(first, 'before');
    assert.equal((await runCommand(first.environment, 'backup', archive)).status, 0);

    const refused = async (what: RegExp, settings: Record<string, string>, file = archive): Promise<void> => {
      using second = scratch({ BERTH_NODE: 'one', BERTH_DATABASE_URL: first.config.database, ...settings });
      const { status, stderr } = await runCommand(second.environment, 'restore', file);
      assert.equal(status, 1);
      assert.match(stderr, what);
      assert.equal(existsSync(join(second.config.stateDir, 'hostkeys')), false);
    };
    await t.test('another node', () =>
      refused(/berth\.tar is of the node one, and this is two: .* Set BERTH_NODE=one first/, { BERTH_NODE: 'two' }),
    );
    await t.test('no PostgreSQL', () =>
      refused(/was made with PostgreSQL: restore that, and set BERTH_DATABASE_URL and BERTH_NODE=one first/, {
        BERTH_DATABASE_URL: '',
      }),
    );
    await t.test('another database', async () => {
      const other = freshDatabase('template0');
      await refused(/the database is not the one that the backup was made with/, { BERTH_DATABASE_URL: other.url });
      other.drop();
    });
    await t.test('a dump from before the backup, unless the operator accepts it', async () => {
      const older = freshDatabase('template0');
      bringBack(older.url, before);
      await refused(/the database is as it was before this backup/, { BERTH_DATABASE_URL: older.url });
      using second = scratch({ BERTH_NODE: 'one', BERTH_DATABASE_URL: older.url });
      const { status, stderr } = await runCommand(second.environment, 'restore', '--force', archive);
      assert.equal(status, 0, stderr);
      older.drop();
    });
    await t.test('a backup with an SQLite database', async () => {
      using sqlite = scratch({ BERTH_DATABASE_URL: '' });
      const file = join(sqlite.dir, 'sqlite.tar');
      mkdirSync(sqlite.config.stateDir, { recursive: true });
      await (await openDatabase(sqlite.config.database)).close();
      assert.equal((await runCommand(sqlite.environment, 'backup', file)).status, 0);
      await refused(
        /holds an SQLite database: restore it without BERTH_DATABASE_URL, then .*berth migrate-to/,
        {},
        file,
      );
    });
  },
);

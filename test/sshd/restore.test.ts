/** A backup of a running berth with its database in it, restored on a second machine with the jails copied. With PostgreSQL: test/postgres/restore. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { backUp } from '../../src/operating/backup/backup.ts';
import { restore } from '../../src/operating/backup/restore.ts';
import { planSettings } from '../../src/operating/backup/settings.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { issueKey, startBerth, webhookOf } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { receiver } from '../support/receiver.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { keyPair } from '../support/sftp-user.ts';
import { runSshd } from '../support/sshd.ts';

const stop = new AbortController().signal;

const backup = (config: Config, place: Scratch, file: string) =>
  backUp(config, { file, settings: join(place.dir, 'berth.env'), clock: systemClock(), stop });

const put = async (place: Scratch, login: Parameters<typeof sftp>[1], name: string, text = name) => {
  const source = join(place.dir, 'source');
  writeFileSync(source, text);
  assert.equal((await sftp(place.dir, login, [`put ${source} ${name}`])).code, 0);
};

test(
  'on a second machine everything is as before: logins, host key, rows; no webhook comes twice, none is lost',
  sqliteOnly,
  async () => {
    using first = scratch();
    using second = scratch();
    let working = false;
    await using moody = await receiver({ respond: (response) => response.writeHead(working ? 204 : 500).end() });
    const archive = join(first.dir, 'backup.tar');
    writeFileSync(join(first.dir, 'berth.env'), 'BERTH_RATE_LIMIT=99\n');
    let hookUrl = '';

    const before = await (async () => {
      await using berth = await startBerth(first);
      hookUrl = berth.receiver.url;
      const byPassword = await berth.directory();
      const byKey = await berth.directory();
      const failing = await berth.directory();
      const { file, publicKey } = keyPair(first.dir);
      const auth = { auth_mode: 'public_key', public_key: publicKey };
      await berth.send('PATCH', `/directories/${byKey.id}`, { json: { directory: auth } });
      await berth.send('PATCH', `/directories/${failing.id}`, { json: { directory: { webhook_url: moody.url } } });
      const keyLogin = { port: berth.sshd.port, username: byKey.username, keyFile: file };

      await put(first, byPassword.login, 'one');
      await put(first, byPassword.login, 'moves');
      await put(first, byPassword.login, 'goes');
      await put(first, keyLogin, 'two');
      await put(first, failing.login, 'late');
      await Promise.all([1, 2, 3, 4].map(() => berth.receiver.next()));
      const late = await moody.next();
      await until(
        'the failure is recorded',
        () => one(berth.config, "select state from deliveries where state <> 'delivered'") === 'waiting',
      );
      const uploads = await berth.uploads(byPassword);
      const connection = await berth.connect(byPassword);
      const session = await sftpSession(connection);
      await session.put('unnamed.part', 'x');
      await until(
        'it waits for its name',
        () => one(berth.config, "select count(*) from files where state = 'waiting'") === 1,
      );

      // Removed, and on the disk for its session when it is backed up and copied.
      await session.put('removed', 'x');
      assert.equal(webhookOf(await berth.receiver.next()).filename, 'removed');
      const [removed] = await berth.uploads(byPassword);
      assert.equal((await berth.send('DELETE', `/directories/${byPassword.id}/uploads/${removed?.id}`)).status, 204);
      execFileSync('cp', ['-a', join(byPassword.files, 'removed'), join(first.dir, 'removed')]);

      await backup(berth.config, first, archive);
      // What the backup does not know.
      await connection[Symbol.asyncDispose]();
      assert.equal(webhookOf(await berth.receiver.next()).filename, 'unnamed.part');
      await put(first, byPassword.login, 'three');
      assert.equal((await sftp(first.dir, byPassword.login, ['rm goes', 'rename moves moved'])).code, 0);
      const unknown = await berth.directory();
      await put(first, unknown.login, 'kept');
      await Promise.all([1, 2].map(() => berth.receiver.next()));
      const key = await issueKey(berth.config);
      return { byPassword, keyLogin, failing, late, uploads, unknown, key, hostKeys: berth.sshd.paths.hostKeys };
    })();
    assert.equal(statSync(archive).mode & 0o777, 0o600);

    // The second machine.
    await using hook = await receiverAt(hookUrl);
    execFileSync('cp', ['-a', first.config.jailDir, second.config.jailDir]);
    const files = join(second.config.jailDir, before.byPassword.username, 'files');
    execFileSync('cp', ['-a', join(first.dir, 'removed'), files]);
    const config: Config = {
      ...second.config,
      sftp: { ...second.config.sftp, port: await freePort() },
      webhooks: { ...second.config.webhooks, allow: ['127.0.0.0/8'] },
    };
    const settings = join(second.dir, 'berth.env');
    const plan = await planSettings({ archive, file: settings, environment: second.environment });
    assert.equal(plan.environment['BERTH_RATE_LIMIT'], '99');
    const report = await restore(config, { file: archive, settings: plan, force: false, stop });
    assert.deepEqual([report.directories, report.files, report.pending, report.withoutJail], [3, 7, 1, []]);
    assert.equal(readFileSync(settings, 'utf8'), 'BERTH_RATE_LIMIT=99\n');
    const hostKey = 'hostkeys/ssh_host_ed25519_key';
    assert.deepEqual(readFileSync(join(config.stateDir, hostKey)), readFileSync(join(first.config.stateDir, hostKey)));
    const later = new Sqlite(config.databaseFile);
    later.prepare("update deliveries set due_at = 0 where state = 'waiting'").run();
    later.close();
    working = true;

    await prepareSshd(config, createLog('silent'));
    await using _sshd = await runSshd(config);
    await using parts = new AsyncDisposableStack();
    const service = parts.adopt(await startService(config, { log: createLog('error') }), (made) => made.close());
    await service.covered;
    const here = { ...before.byPassword.login, port: config.sftp.port };
    await put(second, here, 'four');
    assert.equal((await sftp(second.dir, { ...before.keyLogin, port: config.sftp.port }, ['pwd'])).code, 0);

    // Only files that the backup did not know are announced, and the webhook that was still pending.
    const names = [await hook.next(), await hook.next(), await hook.next()].map(
      (request) => webhookOf(request).filename,
    );
    assert.deepEqual(names.toSorted(), ['four', 'three', 'unnamed.part']);
    const again = await moody.next();
    assert.equal(again.headers['webhook-id'], before.late.headers['webhook-id']);
    assert.deepEqual(again.body, before.late.body);

    const key = await issueKey(config);
    assert.notEqual(key, before.key);
    const rows = new Sqlite(config.databaseFile, { readonly: true });
    parts.defer(() => void rows.close());
    const listed = () =>
      rows
        .prepare<[string], { id: string; path: Buffer }>(
          'select id, path from files where directory_id = ? order by path',
        )
        .all(before.byPassword.id)
        .map(({ id, path }) => `${path.toString()} ${id}`);
    const idOf = (name: string) => before.uploads.find(({ filename }) => filename === name)?.id;
    await until('the rows follow the files', () => listed().length === 5);
    assert.ok(listed().includes(`one ${idOf('one')}`));
    assert.ok(listed().includes(`moved ${idOf('moves')}`));
    assert.deepEqual(
      listed().map((row) => row.split(' ')[0]),
      ['four', 'moved', 'one', 'three', 'unnamed.part'],
    );
    assert.equal(existsSync(join(files, 'removed')), false);
    await until(
      'every row knows its file again',
      () => rows.prepare('select count(*) from files where inode < 0').pluck().get() === 0,
    );

    // A directory that the backup did not know keeps its files, and its UID to itself.
    const jail = join(config.jailDir, before.unknown.username);
    assert.equal(readFileSync(join(jail, 'files', 'kept'), 'utf8'), 'kept');
    const newest = rows.prepare('select max(uid) from principals').pluck().get() as number;
    assert.ok(newest > statSync(join(jail, 'files')).uid);
    assert.deepEqual([hook.requests.length, moody.requests.length], [3, 2]);
  },
);

/** The one value that a query has. */
function one(config: Config, sql: string): unknown {
  const sqlite = new Sqlite(config.databaseFile, { readonly: true });
  const value = sqlite.prepare(sql).pluck().get();
  sqlite.close();
  return value;
}

/** A receiver where an earlier one was. */
async function receiverAt(url: string) {
  return receiver({ port: Number(new URL(url).port) });
}

test(
  'is refused while berth serve runs, over data, and from a damaged archive; nothing is changed then',
  sqliteOnly,
  async () => {
    using place = scratch();
    const { config } = place;
    mkdirSync(config.stateDir, { recursive: true });
    await issueKey(config);
    const archive = join(place.dir, 'backup.tar');
    await backup(config, place, archive);
    const before = readFileSync(config.databaseFile);
    const settings = { file: join(place.dir, 'berth.env'), what: 'leave', environment: {} } as const;
    const options = { file: archive, settings, force: true, stop };

    {
      await using parts = new AsyncDisposableStack();
      parts.adopt(await startService(config, { log: createLog('silent') }), (service) => service.close());
      await assert.rejects(restore(config, options), refusal(/another berth serve runs/));
    }
    await assert.rejects(restore(config, { ...options, force: false }), refusal(/holds data: restore with --force/));

    const damaged = join(place.dir, 'damaged.tar');
    copyFileSync(archive, damaged);
    truncateSync(damaged, statSync(damaged).size - 20_000);
    await assert.rejects(restore(config, { ...options, file: damaged }), refusal(/cannot be unpacked/));
    const bytes = readFileSync(archive);
    const at = bytes.indexOf('SQLite format 3') + 5000;
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    writeFileSync(damaged, bytes);
    await assert.rejects(
      restore(config, { ...options, file: damaged }),
      refusal(/damaged: berth\.db differs from what/),
    );
    writeFileSync(damaged, 'no tar');
    await assert.rejects(restore(config, { ...options, file: damaged }), refusal(/cannot be unpacked/));
    assert.equal(readFileSync(config.databaseFile).length, before.length);

    const report = await restore(config, options);
    const [kept = ''] = report.kept;
    assert.ok(existsSync(kept));
    const old = new Sqlite(kept, { readonly: true });
    assert.equal(old.prepare('select count(*) from accounts').pluck().get(), 1);
    old.close();
    rmSync(archive);
    await assert.rejects(restore(config, options), refusal(/there is no backup/));
  },
);

function refusal(line: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof OperatorError, String(error));
    assert.match(error.message, line);
    assert.doesNotMatch(error.message, /\n/);
    return true;
  };
}

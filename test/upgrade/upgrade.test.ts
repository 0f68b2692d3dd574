/**
 * What an installation of an earlier commit becomes when this berth starts on its folders. Each folder beside this file
 * is what `make.ts` wrote at that commit. Of SQLite alone, the only database that those commits knew.
 */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import { OperatorError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { apiClient } from '../support/api-client.ts';
import { type Upload, webhookOf } from '../support/berth.ts';
import { numberByHand } from '../support/by-hand.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { runSshd } from '../support/sshd.ts';
import { COMMITS, unpack } from './unpack.ts';

/** Longer than a stable file takes to be found. */
const PAUSE_MS = 4000;

for (const commit of COMMITS) {
  test(
    `from ${commit}: what there was stays, nothing is announced again, and what came meanwhile has to be announced by hand`,
    sqliteOnly,
    async () => {
      using place = scratch();
      await using hook = await receiver();
      const { kept, config } = await unpack(place, commit, hook.url);
      const hostKeys = join(config.stateDir, 'hostkeys');
      const keysBefore = readdirSync(hostKeys).map((name) => readFileSync(join(hostKeys, name), 'utf8'));
      const [byPassword, byKey, byBoth, unreached] = kept.directories;
      assert.ok(byPassword && byKey && byBoth && unreached);

      // While berth was down.
      const files = join(config.jailDir, byPassword.username, 'files');
      const { uid } = statSync(files);
      writeFileSync(join(files, 'meanwhile'), 'put while berth was down');
      chownSync(join(files, 'meanwhile'), uid, uid);

      await prepareSshd(config, createLog('silent'));
      await using _sshd = await runSshd(config);
      await using parts = new AsyncDisposableStack();
      const service = parts.adopt(await startService(config, { log: createLog('error') }), (made) => made.close());
      await service.covered;
      const due = ['late', ...(kept.waiting ?? [])];
      await until('they are announced', () => hook.requests.length >= due.length);
      await wait(PAUSE_MS);
      const announced = hook.requests.map((request) => webhookOf(request).filename);
      assert.deepEqual(announced.toSorted(), due.toSorted());
      // Nobody knows whether it is whole.
      const where = "path = cast('meanwhile' as blob) and state = 'partial'";
      assert.equal(numberByHand(config, `select count(*) from files where ${where}`), 1);
      const late = hook.requests.find((request) => webhookOf(request).filename === 'late');
      assert.equal(late?.headers['webhook-id'], kept.delivery);

      const client = parts.use(apiClient({ port: service.port, ca: readFileSync(config.tls.cert), key: kept.key }));
      for (const { id, storage, uploads, secret } of kept.directories) {
        const { json } = await client.send('GET', `/directories/${id}`);
        const { storage_bytes, webhook_secret } = (json as { data: Record<string, unknown> }).data;
        const more: number = id === byPassword.id ? 'put while berth was down'.length : 0;
        assert.deepEqual([storage_bytes, webhook_secret], [storage + more, secret]);
        const list = (await client.send('GET', `/directories/${id}/uploads`)).json as { data: Upload[] };
        const before = list.data.filter(({ filename }) => !kept.waiting?.includes(filename));
        assert.deepEqual(before, uploads);
      }

      const keyFile = join(place.dir, 'key');
      writeFileSync(keyFile, kept.privateKey);
      chmodSync(keyFile, 0o600);
      const { port } = config.sftp;
      const logins = [
        { port, username: byPassword.username, password: byPassword.password },
        { port, username: byKey.username, keyFile },
        { port, username: byBoth.username, keyFile },
        { port, username: byBoth.username, password: byBoth.password },
      ];
      for (const login of logins) {
        const { code, output } = await sftp(place.dir, login, ['pwd']);
        assert.equal(code, 0, output);
      }
      const keysAfter = readdirSync(hostKeys).map((name) => readFileSync(join(hostKeys, name), 'utf8'));
      assert.deepEqual(keysAfter, keysBefore);
    },
  );
}

test('a database of a newer berth is refused in a sentence, and stays as it is', sqliteOnly, async () => {
  using place = scratch();
  const { config } = await unpack(place, COMMITS[0] ?? '', 'http://127.0.0.1:1/');
  const database = new Sqlite(config.databaseFile);
  database.exec("insert into kysely_migration (name, timestamp) values ('999-from-the-future', '2036-01-01')");
  database.close();
  const before = readFileSync(config.databaseFile);
  await assert.rejects(startService(config, { log: createLog('silent') }), (error) => {
    assert.ok(error instanceof OperatorError);
    assert.match(error.message, /newer berth/);
    return true;
  });
  assert.deepEqual(readFileSync(config.databaseFile), before);
});

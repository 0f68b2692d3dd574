/** After `berth migrate-to`, berth goes on where it stopped: the same directories, passwords and host key, on PostgreSQL. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Config } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { startBerth, webhookOf } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { freshDatabase, postgresOnly, psql } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';

test(
  'its users log in and upload before, during and after the move, and each upload is announced once',
  postgresOnly,
  async () => {
    using place = scratch({ BERTH_DATABASE_URL: '' });
    const to = freshDatabase('template0');
    try {
      await using berth = await startBerth(place);
      const directory = await berth.directory();
      const put = async (name: string): Promise<void> => {
        const source = join(place.dir, 'source');
        writeFileSync(source, name);
        assert.equal((await sftp(place.dir, directory.login, [`put ${source} ${name}`])).code, 0);
      };
      await put('before');
      assert.equal(webhookOf(await berth.receiver.next()).filename, 'before');
      const delivered = "select state from deliveries where state <> 'delivered'";
      await until('it is written down', async () => (await berth.uploads(directory)).length === 1);
      await berth.stop();

      await put('during');
      const { status, stderr } = await runCommand(
        { ...place.environment, BERTH_NODE: 'one' },
        'migrate-to',
        '--settings',
        join(place.dir, 'none'),
        to.url,
      );
      assert.equal(status, 0, stderr);

      const moved: Config = { ...berth.config, database: to.url, node: 'one' };
      const service = await startService(moved, { log: createLog(moved.logLevel) });
      try {
        assert.equal(webhookOf(await berth.receiver.next()).filename, 'during');
        await put('after');
        assert.equal(webhookOf(await berth.receiver.next()).filename, 'after');
        await until('nothing is left to be sent', () => psql(to.url, delivered) === '');
        assert.equal(psql(to.url, "select count(*) from files where state = 'uploaded'").trim(), '3');
        assert.equal(psql(to.url, 'select count(*) from deliveries').trim(), '3', 'an upload was announced again');
      } finally {
        await service.close();
      }
    } finally {
      to.drop();
    }
  },
);

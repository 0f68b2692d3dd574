/** A file whose removal waits for its client (src/arrivals/files/deferred-removal.ts), while its directory moves to another node. */
import assert from 'node:assert/strict';
import { existsSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { moved, sshTo } from './moving.ts';
import { nodesPlace, type TestNode } from './nodes-place.ts';

/** A time that utimes(2) sets exactly. */
const SECONDS = 1_700_000_000;

test(
  'a removal that waits ends before the move; one that cannot end there ends on the new home',
  postgresOnly,
  async () => {
    await using place = await nodesPlace('a', 'b');
    const [a, b] = [place.node('a'), place.node('b')];
    const directory = await place.directoryOn(a, b);
    const { id, sftp_username: username, sftp_password: password } = directory;
    const on = ({ berth }: TestNode, name: string): string => join(berth.config.jailDir, username, 'files', name);
    const uploads = async (): Promise<{ id: string; filename: string }[]> =>
      ((await a.send('GET', `/directories/${id}/uploads`)).json as { data: { id: string; filename: string }[] }).data;
    const removedRows = async (): Promise<string[]> => {
      const rows = await place.db
        .selectFrom('files')
        .select(['path', 'state'])
        .where('directory_id', '=', id)
        .execute();
      return rows.map(({ path, state }) => `${path.toString()} ${state}`).toSorted();
    };

    await using connection = await connect({ port: a.berth.sshd.port, username, password });
    const session = await sftpSession(connection);
    const names = ['plain', 'touched'];
    for (const name of names) {
      await session.put(name, 'data');
      await session.set(name, { atime: SECONDS, mtime: SECONDS });
    }
    await until('both are uploads', async () => (await uploads()).length === 2);
    for (const upload of await uploads())
      assert.equal((await a.send('DELETE', `/directories/${id}/uploads/${upload.id}`)).status, 204);
    assert.deepEqual(await removedRows(), ['plain removed', 'touched removed']);
    assert.ok(names.every((name) => existsSync(on(a, name))));

    // An administrator's program touches it all the time, so berth cannot tell that it is as its row has it.
    const touching = setInterval(() => {
      try {
        utimesSync(on(a, 'touched'), SECONDS, SECONDS);
      } catch {
        // It has moved.
      }
    }, 1);
    using ssh = sshTo(b);
    await moved(a, directory, '--to', 'b', '--ssh', ssh.command).finally(() => clearInterval(touching));
    assert.deepEqual([existsSync(on(b, 'plain')), existsSync(on(b, 'touched'))], [false, true]);
    assert.deepEqual(await removedRows(), ['touched removed']);
    await until('it is gone there', async () => !existsSync(on(b, 'touched')) && (await removedRows()).length === 0);
    assert.deepEqual(await uploads(), []);
  },
);

/** BERTH_SETTLE_SECONDS on several nodes: an upload whose name settles while its directory moves to another node. */
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { moved, sshTo } from './moving.ts';
import { type Created, nodesPlace, type TestNode } from './nodes-place.ts';

/** Longer than the move takes beside other tests. */
const SECONDS = 15;

test(
  'a directory moves while names settle: each upload is announced once there, under its last name, and not before its time',
  postgresOnly,
  async () => {
    const settling = { BERTH_SETTLE_SECONDS: String(SECONDS) };
    await using place = await nodesPlace({ BERTH_NODE: 'a', ...settling }, { BERTH_NODE: 'b', ...settling });
    const [a, b] = [place.node('a'), place.node('b')];
    const directory = await place.directoryOn(a, b);
    const hook = { json: { directory: { webhook_url: a.berth.receiver.url } } };
    assert.equal((await a.send('PATCH', `/directories/${directory.id}`, hook)).status, 200);
    const rows = async (): Promise<string[]> => {
      const found = await place.db
        .selectFrom('files')
        .select(['path', 'state'])
        .where('directory_id', '=', directory.id)
        .execute();
      return found.map(({ path, state }) => `${path.toString()} ${state}`).toSorted();
    };
    await onSession(a, directory, async (session) => {
      await session.put('stays', 'data');
      await session.put('tmp7qj', 'more data');
    });
    await until('both wait', async () => (await rows()).length === 2);
    assert.deepEqual(await rows(), ['stays checking', 'tmp7qj checking']);

    using ssh = sshTo(b);
    await moved(a, directory, '--to', 'b', '--ssh', ssh.command);
    assert.deepEqual(await rows(), ['stays checking', 'tmp7qj checking']);
    assert.deepEqual(a.berth.receiver.requests, []);
    const renamedAt = Date.now();
    await onSession(b, directory, (session) => session.rename('tmp7qj', 'final.csv'));

    const { requests } = a.berth.receiver;
    await until('both are announced', () => requests.length === 2);
    assert.ok(Date.now() - renamedAt > (SECONDS - 1) * 1000, 'the renamed one waited again');
    await setTimeout(1500);
    assert.deepEqual(
      requests.map(webhookOf).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`),
      ['stays 4', 'final.csv 9'],
    );
    assert.deepEqual(await rows(), ['final.csv uploaded', 'stays uploaded']);
  },
);

async function onSession(
  { berth }: TestNode,
  { sftp_username: username, sftp_password: password }: Created,
  act: (session: Awaited<ReturnType<typeof sftpSession>>) => Promise<unknown>,
): Promise<void> {
  await using connection = await connect({ port: berth.sshd.port, username, password });
  await act(await sftpSession(connection));
}

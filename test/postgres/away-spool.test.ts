/** What sshd logs while PostgreSQL is away outlives berth, however that ends (test/faults/spool.test.ts has its bounds). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { awayPlace } from './away-place.ts';

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  const name = `${signal} while the database is away: the next start tells each upload once, removed ones too`;
  test(name, postgresOnly, async () => {
    await using place = await awayPlace();
    const { berth, directory, way } = place;
    const first = await place.serving();
    const old = await sftpSession(await berth.connect(directory));
    await old.put('before', 'before');
    await until('it is announced', () => place.announced().length === 1);

    way.cut();
    await old.put('old-session', 'x');
    await old.put('old-session-removed', '12345');
    await old.remove('old-session-removed');
    const handle = await old.open('appended', 'a');
    await old.write(handle, '123');
    await old.close(handle);
    await until('it is seen', () => place.spooled().includes('"close","name":"appended"'));
    await old.remove('appended');
    const session = await sftpSession(await berth.connect(directory));
    await session.put('overwritten', '1');
    await session.put('overwritten', '22');
    await session.put('renamed.filepart', '4444');
    await session.rename('renamed.filepart', 'renamed-removed');
    await session.remove('renamed-removed');
    await session.put('refused', '1');
    await assert.rejects(session.rename('refused', 'nowhere/else'));
    await session.put('last', 'x');
    await until('all of it is in the spool', () => place.spooled().includes('"close","name":"last"'));
    await first.kill(signal);

    const second = place.serve();
    await until('it says that it waits', () => second.output().includes('berth waits for it'));
    await session.put('of-a-session-that-was-there', '12345678');
    await session.remove('of-a-session-that-was-there');
    const newer = await sftpSession(await berth.connect(directory));
    await newer.put('of-a-new-session', '123456789');
    await newer.remove('of-a-new-session');
    await until('that is, too', () => place.spooled().includes('"remove","name":"of-a-new-session"'));
    await way.repair();
    const expected = [
      { filename: 'appended', size_bytes: 3 },
      { filename: 'before', size_bytes: 6 },
      { filename: 'last', size_bytes: 1 },
      { filename: 'of-a-new-session', size_bytes: 9 },
      { filename: 'of-a-session-that-was-there', size_bytes: 8 },
      { filename: 'old-session', size_bytes: 1 },
      { filename: 'old-session-removed', size_bytes: 5 },
      { filename: 'overwritten', size_bytes: 1 },
      { filename: 'overwritten', size_bytes: 2 },
      { filename: 'refused', size_bytes: 1 },
      { filename: 'renamed-removed', size_bytes: 4 },
    ];
    await until('all is announced', () => place.announced().length >= expected.length);
    await until('no upload is left to be decided', () => !/close|remove/.test(place.spooled()), 150);
    const found = place.announced().map(({ filename, size_bytes }) => ({ filename, size_bytes }));
    const order = (one: { filename: string; size_bytes: number }) => `${one.filename} ${one.size_bytes}`;
    assert.deepEqual(found.map(order).toSorted(), expected.map(order).toSorted());
    assert.equal(place.deliveries(), expected.length);
  });
}

test('a database that goes while berth starts is waited for', postgresOnly, async () => {
  await using place = await awayPlace();
  // It has been opened, and this node is about to join the others.
  place.way.cutAt('berth node ');
  const serve = place.serve();
  await until('it says that it waits', () => serve.output().includes('berth waits for it'));
  await place.way.repair();
  await until('it serves', () => serve.output().includes('berth serves'));
  assert.equal(await serve.kill('SIGTERM'), 0);
});

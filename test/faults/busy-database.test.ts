/**
 * Another process holds SQLite's write lock (PostgreSQL has none): reads and health work, changes are refused in time,
 * uploads wait.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { startBerth } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { sftp } from '../support/openssh-client.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';

test(
  'while the write lock is held, reads go on and changes answer 503; afterwards everything goes on',
  sqliteOnly,
  async () => {
    using place = scratch();
    await using berth = await startBerth(place);
    const directory = await berth.directory();
    await berth.service().covered;
    writeFileSync(join(place.dir, 'file'), 'data');
    const holder = new Sqlite(berth.config.databaseFile);
    holder.exec('begin immediate');

    const create = () => berth.send('POST', '/directories', { json: { directory: { name: 'Late' } } });
    const timed = async <T>(work: Promise<T>): Promise<{ value: T; ms: number }> => {
      const began = performance.now();
      return { value: await work, ms: performance.now() - began };
    };
    const over = new AbortController();
    const reading = (async () => {
      const statuses = new Set<number>();
      const times: number[] = [];
      while (!over.signal.aborted) {
        for (const path of ['//healthz', '/directories', `/directories/${directory.id}/uploads`]) {
          const { value, ms } = await timed(berth.send('GET', path));
          statuses.add(value.status);
          times.push(ms);
        }
      }
      return { statuses: [...statuses], longest: Math.max(...times) };
    })();
    await sftp(place.dir, directory.login, ['put file']);
    const first = await timed(create());
    const { value: later, ms } = await timed(Promise.all(Array.from({ length: 20 }, create)));
    for (const { status, json, headers } of [first.value, ...later]) {
      assert.deepEqual([status, json, headers['retry-after']], [503, { error: 'Service unavailable' }, '5']);
    }
    assert.ok(ms < 2 * first.ms, 'they do not wait one after the other');
    const removed = await berth.send('DELETE', `/directories/${directory.id}`);
    assert.equal(removed.status, 503);
    const { status, stderr } = await runCommand(place.environment, 'account', 'create', 'Late', '--plan', 'pro');
    assert.deepEqual(
      [status, /^berth: another process keeps [^\n]* locked [^\n]*: nothing has changed\n$/.test(stderr)],
      [1, true],
      stderr,
    );
    const asked = await runCommand(place.environment, 'directory', 'delete', directory.username, '--yes');
    assert.deepEqual(
      [
        asked.status,
        /^berth: Service unavailable: the reason is in the log \(.*, request_id [\w-]+\)\n$/.test(asked.stderr),
      ],
      [1, true],
      asked.stderr,
    );
    over.abort();
    const { statuses, longest } = await reading;
    assert.deepEqual(statuses, [200]);
    assert.ok(longest < first.ms, 'no read waits as long as a write');
    assert.equal(berth.receiver.requests.length, 0);

    holder.exec('rollback');
    holder.close();
    assert.equal((await create()).status, 201);
    await berth.receiver.next();
    assert.deepEqual(
      (await berth.uploads(directory)).map(({ filename }) => filename),
      ['file'],
    );
  },
);

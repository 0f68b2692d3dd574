/** Moves that are not from one live node to another by ssh, and one back. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLog } from '../../src/foundation/base/log.ts';
import { prepare } from '../../src/service/prepare.ts';
import { runCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { aboutToMove, filesOn, isInUseThere, moved, refusal, sshTo, upload } from './moving.ts';
import { letsIn } from './nodes-place.ts';

test('there and back again', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, b, ssh, directory } = move;
  await moved(a, directory, '--to', 'b', '--ssh', ssh.command);
  await upload(b, directory, 'second');
  using back = sshTo(a);
  await until('its old home has removed it', () => !existsSync(join(filesOn(a, directory), '..')));
  await until('it can come back', async () => {
    try {
      await moved(b, directory, '--to', 'a', '--ssh', back.command);
      return true;
    } catch (error) {
      if (/still removes/.test(String(error))) return false;
      throw error;
    }
  });
  assert.ok(await letsIn(a, directory));
  assert.deepEqual(readdirSync(filesOn(a, directory)).toSorted(), ['first', 'second']);
  await until('both are announced', () => move.hook.requests.length === 2);
});

test(
  'a node that is off for good: its directory goes on elsewhere, with the files of a backup',
  postgresOnly,
  async () => {
    await using move = await aboutToMove();
    const { a, b, directory } = move;
    const backup = join(a.berth.config.stateDir, 'backup');
    execFileSync('cp', ['-a', filesOn(a, directory), backup]);
    assert.match(await refusal(b, directory, '--to', 'b', '--it-is-off'), /a is live/);
    await a.berth.stop();
    const { stdout } = await runCommand(b.environment, 'node', 'receive', directory.id);
    execFileSync('cp', ['-a', backup, stdout.trim()]);
    const { from, is_live, locked_out_ms } = await moved(b, directory, '--to', 'b', '--it-is-off');
    assert.deepEqual([from, is_live, locked_out_ms], ['a', true, null]);
    assert.ok(await letsIn(b, directory));
    assert.equal(readFileSync(join(filesOn(b, directory), 'first'), 'utf8'), 'first');

    await prepare(a.berth.config, createLog('silent'));
    assert.equal(await letsIn(a, directory), false, 'when it comes back, it lets nobody in');
    await a.berth.start();
    await until('it removes what it has', () => !existsSync(join(filesOn(a, directory), '..')));
    await isInUseThere(move);
  },
);

test('a node that is off for good, and no backup: its directory goes on without files', postgresOnly, async () => {
  await using move = await aboutToMove();
  const { a, b, directory } = move;
  await a.berth.stop();
  const { is_live } = await moved(b, directory, '--to', 'b', '--it-is-off');
  assert.ok(is_live);
  await until('nothing is recorded any more', async () => {
    const { json } = await b.send('GET', `/directories/${directory.id}`);
    return (json as { data: { storage_bytes: number } }).data.storage_bytes === 0;
  });
  await isInUseThere(move);
});

test(
  'jails on the same storage: files are not copied, and outlive their removal from the old home',
  postgresOnly,
  async () => {
    await using move = await aboutToMove();
    const { a, b, ssh, directory } = move;
    const { ino } = statSync(join(filesOn(a, directory), 'first'));
    const { from, is_live } = await moved(a, directory, '--to', 'b', '--ssh', ssh.command, '--shared');
    assert.deepEqual([from, is_live], ['a', true]);
    const arrived = join(filesOn(b, directory), 'first');
    assert.equal(statSync(arrived).ino, ino);
    await until('its old home has removed it', () => statSync(arrived).nlink === 1);
    assert.equal(readFileSync(arrived, 'utf8'), 'first');
    await isInUseThere(move);
  },
);

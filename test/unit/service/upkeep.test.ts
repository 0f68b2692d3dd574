/** The comparison of every directory after a start: repeated until it succeeds, ended early by a stop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../src/foundation/base/clock.ts';
import { createGround } from '../../../src/foundation/context.ts';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { createRowRemoval } from '../../../src/rules/directories/row-removal.ts';
import { onlyHome } from '../../../src/rules/directories/host.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import type { LocalHost } from '../../../src/machine/sftp/host.ts';
import { pathsOf, prepareFolders } from '../../../src/machine/sftp/paths.ts';
import { startUpkeep } from '../../../src/service/upkeep.ts';
import type { Uploads } from '../../../src/arrivals/uploads/start.ts';
import { recordingHost } from '../../support/recording-host.ts';
import { type Scratch, scratch } from '../../support/scratch.ts';

/** The upkeep of a berth without directories, whose scan is that function. */
async function upkeepOf({ config }: Scratch, coverAll: () => Promise<void>) {
  const paths = pathsOf(config);
  prepareFolders(paths);
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const database = await openDatabase(config.database);
  const removal = createRowRemoval({ database, log, host: recordingHost() });
  const ground = createGround({ config, database, clock: systemClock(), log });
  const { background } = ground;
  const upkeep = startUpkeep({
    ...ground,
    removal,
    paths,
    host: recordingHost(),
    placement: onlyHome(config),
    local: {} as LocalHost,
    isJailDiskThere: () => true,
    uploads: { adoptSessions: async () => undefined, coverAll } as unknown as Uploads,
  });
  return {
    upkeep,
    background,
    lines,
    async [Symbol.asyncDispose]() {
      await upkeep.close();
      await removal.close();
      await database.close();
    },
  };
}

test('a look that fails is counted, logged and repeated', async () => {
  using place = scratch();
  let looks = 0;
  await using running = await upkeepOf(place, async () => {
    looks += 1;
    if (looks === 1) throw new Error('no memory');
  });
  await running.upkeep.covered;
  assert.equal(looks, 2);
  assert.equal(running.background.failures().get('coverage'), 1);
  assert.ok(running.lines.some((line) => line.includes('no memory')));
  assert.ok(running.lines.some((line) => line.includes('every directory has been compared')));
});

test('a stop does not wait for the first scan', async () => {
  using place = scratch();
  const scanning = Promise.withResolvers<void>();
  await using running = await upkeepOf(place, () => {
    scanning.resolve();
    return new Promise(() => undefined);
  });
  await scanning.promise;
  await running.upkeep.close();
  await running.upkeep.covered;
  assert.ok(!running.lines.some((line) => line.includes('every directory is watched')));
});

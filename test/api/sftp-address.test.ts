/** A change of BERTH_SFTP_HOST or BERTH_SFTP_PORT reaches the directories that were made before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { runDoctor } from '../../src/operating/doctor/run.ts';
import { startService } from '../../src/service/service.ts';
import { startBerth } from '../support/berth.ts';
import { scratch } from '../support/scratch.ts';

test('a start gives every directory the address of the settings, and says how many; doctor compares', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const [one] = await Promise.all([berth.directory(), berth.directory()]);
  await berth.stop();
  const config: Config = { ...berth.config, sftp: { host: 'sftp.example.com', port: 22 } };
  const elsewhere = /customers are given another SFTP address than sftp\.example\.com, port 22, for \S+, \S+"/;
  assert.match(await doctor(config), elsewhere);

  const lines: string[] = [];
  const log = createLog('warn', { write: (line) => void lines.push(line) });
  for (const expected of [1, 0]) {
    lines.length = 0;
    const service = await startService(config, { log });
    await service.close();
    const updated = lines.filter((line) => line.includes('BERTH_SFTP_HOST or BERTH_SFTP_PORT has changed'));
    assert.equal(updated.length, expected);
    if (expected > 0) assert.match(updated[0] ?? '', /"directories":2,"sftp_host":"sftp\.example\.com","sftp_port":22/);
  }
  assert.doesNotMatch(await doctor(config), elsewhere);
  const { db, close } = await openDatabase(config.database);
  const row = await db
    .selectFrom('directories')
    .select(['sftp_host', 'sftp_port'])
    .where('id', '=', one.id)
    .executeTakeFirstOrThrow();
  await close();
  assert.deepEqual([row.sftp_host, row.sftp_port], ['sftp.example.com', 22]);
});

async function doctor(config: Config): Promise<string> {
  let text = '';
  const print = (line: string): void => void (text += line);
  const stop = new AbortController().signal;
  await runDoctor({ config: () => config, environment: {}, clock: systemClock(), json: true, print, stop });
  return text;
}

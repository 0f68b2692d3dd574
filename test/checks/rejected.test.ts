/** Between the commit of a rejection and the move into the quarantine, an operator acts on the file. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createQuarantine, quarantinedOf } from '../../src/arrivals/checks/quarantine.ts';
import { decisions } from '../../src/arrivals/checks/decisions.ts';
import { placesIn } from '../../src/arrivals/checks/start.ts';
import { currentTag } from '../../src/arrivals/files/content.ts';
import { bytesOf, jailFiles } from '../../src/arrivals/uploads/file-path.ts';
import { fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Transact } from '../../src/foundation/db/database.ts';
import { lstatBeneath } from '../../src/foundation/base/beneath.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { liveDirectory } from '../../src/rules/directories/target.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { scratch } from '../support/scratch.ts';
import { filesContext } from '../support/files-context.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createGround } from '../../src/foundation/context.ts';

/** A file that is rejected. `meanwhile` runs once that is committed, while the file is on its way. */
async function rejecting(meanwhile: 'release' | 'remove') {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const { config } = place;
  const accountId = await firstAccount(config);
  await fill(config, accountId, { directories: 1, filesEach: 0 });
  const database = await openDatabase(config.database);
  parts.defer(() => database.close());
  const { id } = await database.reads.selectFrom('directories').select('id').executeTakeFirstOrThrow();
  const directory = await liveDirectory(database.reads, { id, accountId });
  const paths = pathsOf(config);
  const filesRoot = jailFiles(config.jailDir);
  const root = filesRoot(directory.sftp_username);
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'a'), 'bad!');
  const stats = lstatBeneath(root, bytesOf('a'));
  assert.ok(stats);
  const values = { id: 'f', directory_id: id, path: bytesOf('a'), state: 'checking', source: 'log' } as const;
  await database.db
    .insertInto('files')
    .values({ ...values, ...fileStat(stats), uploaded_at: 1, session_pid: null })
    .execute();
  const file = await database.reads.selectFrom('files').selectAll().executeTakeFirstOrThrow();

  let act: (() => Promise<void>) | undefined;
  const transact: Transact = async (work) => {
    const { value } = await database.db.transaction().execute(work);
    const next = act;
    act = undefined;
    await next?.();
    return value;
  };
  const log = createLog('silent');
  const context = filesContext(createGround({ config, database, clock: systemClock(), log }), { transact });
  const placeOf = placesIn(paths.quarantine);
  const decided = decisions(context, { placeOf, stayed: () => undefined });
  const quarantine = createQuarantine(context, {
    placeOf,
    announce: (of, fileId) => decided.pass(of, fileId, undefined),
    released: () => undefined,
  });
  act = async () => {
    const rejected = await quarantinedOf(database.reads, id, file.id);
    assert.ok(rejected);
    await quarantine[meanwhile]({ id, accountId }, rejected);
  };
  await decided.reject(directory, file, currentTag(root, file.path) ?? '', 'Bad');
  assert.equal(act, undefined);
  return {
    inTransit: readdirSync(paths.transit),
    inQuarantine: existsSync(placeOf(id, file.id)),
    content: existsSync(join(root, 'a')) ? readFileSync(join(root, 'a'), 'utf8') : undefined,
    rows: await database.reads.selectFrom('files').select('state').execute(),
    rejected: await database.reads.selectFrom('quarantine').select('id').execute(),
  };
}

test('a file is deleted while it moves to the quarantine: nothing is left of it', async () => {
  const left = await rejecting('remove');
  assert.deepEqual(left, { inTransit: [], inQuarantine: false, content: undefined, rows: [], rejected: [] });
});

test('a file is released while it moves to the quarantine: it is back in its directory, and an upload', async () => {
  const left = await rejecting('release');
  const rows = [{ state: 'uploaded' }];
  assert.deepEqual(left, { inTransit: [], inQuarantine: false, content: 'bad!', rows, rejected: [] });
});

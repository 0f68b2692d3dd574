/** What berth keeps of sshd's log while the database is unavailable: its limits, and what remains after a kill. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { pathsOf, prepareFolders } from '../../src/machine/sftp/paths.ts';
import { copyEmptyDatabase } from '../support/empty-database.ts';
import { directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { rounds } from '../support/long.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { scratch } from '../support/scratch.ts';
import { readJournal } from '../support/journal-text.ts';
import { awayFile, passingUploads, say, startSpooling } from '../support/spooling.ts';
import { smallDisk } from './small-disk.ts';

const CHILD = fileURLToPath(new URL('spool-child.ts', import.meta.url));

/** Longer than a file has to rest before it is recorded, and than berth waits for lines that the journal has no room for. */
const STILL_MS = 8000;

/** More than are in memory at once. */
const MANY = rounds(4000, 8000);

/** Numbers that no process has. */
const PID = 5_000_000;

async function spoolPlace(count: number) {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const { config, environment } = place;
  prepareFolders(pathsOf(config));
  copyEmptyDatabase(config);
  const database = parts.adopt(await openDatabase(config.database), (opened) => opened.close());
  const rows = Array.from({ length: count }, (_, index) => directoryRow({ name: `Acme ${index}` }));
  await insertDirectories(database.db, await newAccount(database.db), rows);
  const { journal: spool } = pathsOf(config);
  const users = rows.map(({ sftp_username: username }) => username);
  for (const user of users) mkdirSync(join(config.jailDir, user, 'files'), { recursive: true });
  const owned = parts.move();
  return {
    config,
    database,
    users,
    spool,
    leave: () => writeFileSync(awayFile(config), ''),
    comeBack: () => rmSync(awayFile(config)),
    spooled: () => readJournal(spool),
    /** A process that dies with the place. */
    async child() {
      const child = spawn(process.execPath, [...process.execArgv, CHILD], {
        env: { ...nodeEnvironment, ...environment },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await once(child.stdout, 'data');
      const kill = async (): Promise<void> => {
        const ended = once(child, 'exit');
        if (child.kill('SIGKILL')) await ended;
      };
      owned.defer(kill);
      return { kill };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The names of the announced files. */
async function announced({ reads }: Database): Promise<string[]> {
  const rows = await reads
    .selectFrom('transfers')
    .select('path')
    .where('event', '=', 'uploaded')
    .orderBy('id')
    .execute();
  const { count } = await reads
    .selectFrom('transfers')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('event', '=', 'session-opened')
    .executeTakeFirstOrThrow();
  assert.ok(count <= 3, 'no session is opened twice');
  return rows.map(({ path }) => path ?? '');
}

function namesOf(user: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${user}-${index}`);
}

void describe('kept while the database is away', { concurrency: true }, () => {
  test(
    'more uploads than memory holds, of files that are gone at once: each is announced once, and nobody waits long',
    sqliteOnly,
    async () => {
      await using place = await spoolPlace(2);
      const { config, database, users } = place;
      const [busy = '', quiet = ''] = users;
      const uploads = await startSpooling(config, database);
      try {
        place.leave();
        await say(config, busy, PID, passingUploads(busy, MANY));
        await say(config, quiet, PID + 1, passingUploads(quiet, 10));
        await until('all of it is in the spool', () => place.spooled().split('session-closed').length === 3);
        place.comeBack();
        await until('all is announced', async () => (await announced(database)).length >= MANY + 10, 200);
        await until('the spool is empty', () => place.spooled() === '', 150);
        const names = await announced(database);
        assert.deepEqual(names.toSorted(), [...namesOf(busy, MANY), ...namesOf(quiet, 10)].toSorted());
        const last = names.findLastIndex((name) => name.startsWith(quiet));
        assert.ok(last < 2000, `the last of the quiet one is announced after ${last} others`);
      } finally {
        await uploads.close();
      }
    },
  );

  test(
    'killed again and again while it announces what was kept: each upload is announced once',
    sqliteOnly,
    async () => {
      await using place = await spoolPlace(1);
      const { config, database, users } = place;
      const [user = ''] = users;
      const first = await place.child();
      place.leave();
      await say(config, user, PID, passingUploads(user, 1000));
      await until('some of it is in the spool', () => place.spooled().includes('session-closed'));
      await first.kill();
      let child = await place.child();
      await say(config, user, PID, passingUploads(user, 1000, 1000));
      await until('all of it is in the spool', () => place.spooled().split('session-closed').length === 3);
      place.comeBack();
      for (const count of [1, 300, 700, 1200]) {
        await until(`${count} are announced`, async () => (await announced(database)).length >= count);
        await child.kill();
        child = await place.child();
      }
      await until('the spool is empty', () => place.spooled() === '', 150);
      assert.deepEqual((await announced(database)).toSorted(), namesOf(user, 2000).toSorted());
    },
  );

  /** Uploads of one directory whose journal is on a small disk. */
  async function smallSpoolPlace() {
    await using parts = new AsyncDisposableStack();
    const place = parts.use(await spoolPlace(1));
    const disk = parts.use(smallDisk(place.spool, 'size=256k'));
    parts.adopt(await startSpooling(place.config, place.database), (uploads) => uploads.close());
    const [user = ''] = place.users;
    const owned = parts.move();
    return { ...place, disk, user, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  test('a disk that has no room for the spool: memory keeps some of it', sqliteOnly, async () => {
    await using place = await smallSpoolPlace();
    const { config, database, disk, user } = place;
    place.leave();
    const texts = passingUploads(user, 1000);
    await say(config, user, PID, texts.slice(0, 61));
    await until('some of it is in the spool', () => place.spooled().includes(`"remove","name":"${user}-19`));
    disk.fill();
    await say(config, user, PID, texts.slice(61));
    disk.free();
    place.comeBack();
    await until('all is announced', async () => (await announced(database)).length >= 1000);
    await until('the spool is empty', () => place.spooled() === '', 150);
    assert.deepEqual((await announced(database)).toSorted(), namesOf(user, 1000).toSorted());
  });

  test(
    'a disk that has no room to compact the journal: it is read on, and each upload is announced once',
    sqliteOnly,
    async () => {
      await using place = await smallSpoolPlace();
      const { config, database, disk, user } = place;
      place.leave();
      const texts = passingUploads(user, 101);
      // The session goes on, so the journal's new beginning has to say so.
      await say(config, user, process.pid, texts.slice(0, -4));
      await until('it is in the journal', () => place.spooled().includes(`"remove","name":"${user}-99`));
      disk.fill();
      place.comeBack();
      await until('all is announced', async () => (await announced(database)).length >= 100);
      await wait(3000); // it is compacted after a second
      assert.ok(place.spooled().includes(`${user}-99`), 'there is no room to compact it');
      disk.free();
      await say(config, user, process.pid, texts.slice(-4));
      await until('the journal is empty', () => place.spooled() === '');
      assert.deepEqual((await announced(database)).toSorted(), namesOf(user, 101).toSorted());
    },
  );

  test(
    'while the disk has no room for the journal, a file that was cut off is not taken for a copy',
    sqliteOnly,
    async () => {
      await using place = await smallSpoolPlace();
      const { config, database, disk, user } = place;
      const [opened = ''] = passingUploads(user, 1);
      await say(config, user, PID, [opened]);
      await until('its session has begun', () => place.spooled().includes('session-opened'));
      disk.fill();
      const open = 'open "stump" flags WRITE,CREATE,TRUNCATE mode 0666';
      await say(config, user, PID, [open, 'forced close "stump" bytes read 0 written 6']);
      writeFileSync(join(config.jailDir, user, 'files', 'stump'), 'a part');
      await wait(STILL_MS);
      assert.deepEqual(await announced(database), []);
      disk.free();
      const states = () => database.reads.selectFrom('files').select('state').execute();
      await until('it is recorded', async () => (await states()).length > 0);
      assert.deepEqual(await states(), [{ state: 'partial' }]);
      assert.deepEqual(await announced(database), []);
    },
  );
});

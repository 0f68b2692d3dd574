/** BERTH_SETTLE_SECONDS: an upload is announced once neither its name nor its folders' have changed for that time. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { checkedScratch, checkPlace, fakeClamd } from '../checks/check-place.ts';
import { historyOf, startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { ask, form, uploadLink } from '../support/links.ts';
import { movedClock } from '../support/moved-clock.ts';
import { until } from '../support/poll.ts';
import { FXP, OPEN, type RawSftp, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';

/** Where a test waits for a name to settle: long enough for what it does before, on a busy machine, too. */
const SECONDS = 5;
const SETTLING = { BERTH_SETTLE_SECONDS: String(SECONDS) };
const MS = SECONDS * 1000;
/** Elsewhere no name settles before `letPass` says that time has passed. */
const HOUR = 3_600_000_000;
const AN_HOUR = { BERTH_SETTLE_SECONDS: '3600' };
/** Times of access and modification (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

const soon = sharedBerth(SETTLING);
const later = sharedBerth(AN_HOUR);

/** Replaces a file as programs do, and writes a database twice. */
const PYTHON = `
import os, sqlite3, sys, tempfile
os.chdir(sys.argv[1])
with tempfile.NamedTemporaryFile('w', dir='.', delete=False) as file:
    file.write('atomic')
os.replace(file.name, 'atomic.json')
database = sqlite3.connect('app.db')
for statement in ('create table t (a)', 'insert into t values (1)'):
    database.execute(statement)
    database.commit()
database.close()
`;

const execute = promisify(execFile);

async function hasProgram(...command: readonly [string, ...string[]]): Promise<boolean> {
  const [program, ...words] = command;
  return execute(program, words).then(
    () => true,
    () => false,
  );
}

/** The files of a directory whose names have not settled, by name. */
async function waiting(berth: TestBerth, { id }: TestDirectory): Promise<Map<string, number>> {
  const rows = await onDatabase(berth, ({ reads }) =>
    reads
      .selectFrom('files')
      .select(['path', 'named_at'])
      .where('directory_id', '=', id)
      .where('state', '=', 'checking')
      .orderBy('path')
      .execute(),
  );
  return new Map(rows.map(({ path, named_at }) => [String(path), named_at]));
}

/** Returns once these files wait for their names to settle, and no others do. */
async function untilWaiting(berth: TestBerth, directory: TestDirectory, ...names: readonly string[]): Promise<void> {
  const wanted = names.toSorted().join();
  await until(`${wanted} wait`, async () => [...(await waiting(berth, directory)).keys()].join() === wanted);
}

/** Time passes for the names in a directory; berth looks at it again within five seconds. */
async function letPass(berth: TestBerth, { id }: TestDirectory, time = HOUR): Promise<void> {
  await onDatabase(berth, ({ db }) =>
    db
      .updateTable('files')
      .set((eb) => ({ named_at: eb('named_at', '-', time) }))
      .where('directory_id', '=', id)
      .where('state', '=', 'checking')
      .execute(),
  );
}

/** The webhooks, as `atomic.json 12`, once there are that many, no more come, and nothing is left that could be announced. */
async function announced(berth: TestBerth, directory: TestDirectory, count: number): Promise<string[]> {
  const { requests } = berth.receiver;
  await until(`${count} are announced`, () => requests.length >= count);
  await sleep(1500);
  await until('no name has to settle', async () => (await waiting(berth, directory)).size === 0);
  return requests.map(webhookOf).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`);
}

/** How many uploads were received. */
async function received(berth: TestBerth, directory: TestDirectory): Promise<number> {
  return (await historyOf(berth, directory)).filter((event) => event === 'received').length;
}

async function session(berth: TestBerth, directory: TestDirectory): Promise<RawSftp> {
  return rawSftp(await berth.connect(directory));
}

void describe('a name that may still change', { concurrency: true }, () => {
  test('a temporary file of Python, replaced twice over sshfs: the final name, once for each', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    assert.ok(await sftp.put('tmpuxfpa7qj', 'one'));
    assert.equal((await sftp.replace('tmpuxfpa7qj', 'atomic.json')).status, 0);
    await untilWaiting(berth, directory, 'atomic.json');
    assert.deepEqual(await berth.uploads(directory), []);
    await letPass(berth, directory);
    assert.deepEqual(await announced(berth, directory, 1), ['atomic.json 3']);
    assert.equal((await berth.uploads(directory)).length, 1);
    assert.ok(await sftp.put('tmp0f1k2j3h', 'second'));
    assert.equal((await sftp.replace('tmp0f1k2j3h', 'atomic.json')).status, 0);
    await untilWaiting(berth, directory, 'atomic.json');
    // The announced upload has been overwritten, and the new one is not announced yet.
    assert.deepEqual(await berth.uploads(directory), []);
    await letPass(berth, directory);
    assert.deepEqual(await announced(berth, directory, 2), ['atomic.json 3', 'atomic.json 6']);
    const [upload] = await berth.uploads(directory);
    assert.equal(berth.receiver.requests[1]?.headers['webhook-upload-id'], upload?.id);
  });

  test('Python and sqlite over a real sshfs: the final names, and no journal', async (t) => {
    const isHere = (await hasProgram('sshfs', '--version')) && (await hasProgram('python3', '-c', 'import sqlite3'));
    if (!isHere || !existsSync('/dev/fuse')) return t.skip('needs sshfs, python3 and /dev/fuse');
    await using berth = await later();
    const directory = await berth.directory();
    const { login } = directory;
    const mounted = join(berth.place.dir, `mounted-${login.username}`);
    mkdirSync(mounted);
    const options = 'password_stdin,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null';
    const mounting = execute('sshfs', [
      '-p',
      String(login.port),
      '-o',
      options,
      `${login.username}@127.0.0.1:`,
      mounted,
    ]);
    mounting.child.stdin?.end(login.password);
    await mounting;
    try {
      await execute('python3', ['-c', PYTHON, mounted]);
    } finally {
      await execute('fusermount3', ['-u', mounted]);
    }
    await untilWaiting(berth, directory, 'app.db', 'atomic.json');
    await letPass(berth, directory);
    await announced(berth, directory, 2);
    const names = berth.receiver.requests.map((request) => webhookOf(request).filename);
    assert.deepEqual(names.toSorted(), ['app.db', 'atomic.json']);
  });

  test('each rename of the file or of a folder above it begins the wait again; its times and mode do not', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    await sftp.request(FXP.MKDIR, 'in', 0);
    await sftp.request(FXP.MKDIR, 'in/deep', 0);
    assert.ok(await sftp.put('3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'guid'));
    assert.ok(await sftp.put('in/deep/below', 'below'));
    assert.ok(await sftp.put('dated', 'd'));
    await untilWaiting(berth, directory, '3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'dated', 'in/deep/below');
    await letPass(berth, directory, HOUR / 2);
    const before = await waiting(berth, directory);
    assert.equal((await sftp.rename('3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'report.csv')).status, 0);
    assert.equal((await sftp.rename('in', 'out')).status, 0);
    await sftp.request(FXP.SETSTAT, 'dated', ...TIMES);
    await sftp.request(FXP.SETSTAT, 'dated', 4, 0o640);
    await untilWaiting(berth, directory, 'dated', 'out/deep/below', 'report.csv');
    const dated = () =>
      onDatabase(berth, ({ reads }) =>
        reads
          .selectFrom('files')
          .select('mtime')
          .where('directory_id', '=', directory.id)
          .where('path', '=', Buffer.from('dated'))
          .executeTakeFirst(),
      );
    await until('the row has the new time', async () => (await dated())?.mtime === 1_700_000_000_000_000);
    assert.equal((await waiting(berth, directory)).get('dated'), before.get('dated'));
    await letPass(berth, directory, HOUR / 2);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'dated');
    await untilWaiting(berth, directory, 'out/deep/below', 'report.csv');
    await letPass(berth, directory, HOUR / 2);
    const all = await announced(berth, directory, 3);
    assert.deepEqual(all.toSorted(), ['dated 1', 'out/deep/below 5', 'report.csv 4']);
  });

  test('overwritten and appended to: the last content, once; removed: never, and with it a journal of sqlite', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    for (const data of ['1', '12', '123']) assert.ok(await sftp.put('over', data));
    assert.ok(await sftp.put('longer', 'a'));
    const handle = await sftp.open('longer', OPEN.write | OPEN.append);
    assert.ok(handle);
    await sftp.request(FXP.WRITE, handle, 0n, 'bc');
    await sftp.request(FXP.CLOSE, handle);
    assert.ok(await sftp.put('removed', 'x'));
    for (let i = 0; i < 2; i += 1) {
      assert.ok(await sftp.put('app.db-journal', 'pages'));
      await sleep(200);
      assert.equal((await sftp.request(FXP.REMOVE, 'app.db-journal')).status, 0);
    }
    assert.equal((await sftp.request(FXP.REMOVE, 'removed')).status, 0);
    await untilWaiting(berth, directory, 'longer', 'over');
    await letPass(berth, directory);
    assert.deepEqual((await announced(berth, directory, 2)).toSorted(), ['longer 3', 'over 3']);
    assert.equal(await berth.storage(directory), 6);
  });

  test('a file that is open when its name has settled is announced after its close', async () => {
    await using berth = await soon();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    assert.ok(await sftp.put('open', 'half'));
    const handle = await sftp.open('open', OPEN.write | OPEN.append);
    assert.ok(handle);
    await sleep(MS + 1500);
    assert.equal(berth.receiver.requests.length, 0);
    await sftp.request(FXP.WRITE, handle, 0n, ', whole');
    await sftp.request(FXP.CLOSE, handle);
    assert.deepEqual(await announced(berth, directory, 1), ['open 11']);
  });

  test('a client that logs out and a suspension change nothing; a deleted directory announces nothing', async () => {
    await using berth = await later();
    const [stays, goes] = [await berth.directory(), await berth.directory()];
    for (const directory of [stays, goes]) {
      await using connection = await berth.connect(directory);
      assert.ok(await (await rawSftp(connection)).put(`of ${directory.id}`, 'x'));
    }
    for (const directory of [stays, goes])
      await until('it was received', async () => (await received(berth, directory)) === 1);
    await berth.send('PATCH', `/directories/${stays.id}/access`, { json: { directory: { suspended: true } } });
    assert.equal((await berth.send('DELETE', `/directories/${goes.id}`)).status, 204);
    for (const directory of [stays, goes]) await letPass(berth, directory);
    assert.deepEqual(await announced(berth, stays, 1), [`of ${stays.id} 1`]);
  });

  test('names that a request has given do not wait: a link, and the command that announces a partial file', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const link = await uploadLink(berth, directory, 'by-link.pdf');
    assert.equal((await ask(berth, link, form(Buffer.from('pdf')))).status, 201);
    await until('it is announced', () => berth.receiver.requests.length === 1);
    const connection = await berth.connect(directory);
    const sftp = await rawSftp(connection);
    const handle = await sftp.open('cut-off', OPEN.write | OPEN.create);
    assert.ok(handle);
    await sftp.request(FXP.WRITE, handle, 0n, 'ha');
    connection.drop();
    const partial = async () => {
      const { json } = await berth.send('GET', `/directories/${directory.id}/files?state=partial`);
      return (json as { data: { id: string }[] }).data[0]?.id;
    };
    await until('it is partial', async () => (await partial()) !== undefined);
    const path = `/directories/${directory.id}/partial/${await partial()}/announce`;
    assert.equal((await berth.send('POST', path)).status, 200);
    await until('both are announced', () => berth.receiver.requests.length === 2);
  });

  test('an operator may release it at once', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    const run = (...words: string[]) => runHere({ ...berth.place.environment, SUDO_USER: 'alice' }, ...words);
    assert.ok(await sftp.put('urgent', 'x'));
    const listed = async () => {
      const { stdout } = await run('quarantine', 'list', '--directory', directory.username, '--json');
      return JSON.parse(stdout) as { id: string; state: string; reason: string }[];
    };
    await until('it is listed', async () => (await listed()).length > 0);
    const { stdout: explained } = await run('explain', directory.username);
    assert.match(explained, /"urgent" \(1 bytes\) waits until its name has not changed for 3600 s/);
    const [{ id, state, reason } = { id: '', state: '', reason: '' }] = await listed();
    assert.deepEqual([state, reason], ['settling', 'waits until its name has not changed for 3600 s']);
    assert.equal((await run('quarantine', 'release', id)).status, 0);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'urgent');
  });

  test('after a restart it waits on; what was renamed meanwhile has its final name', async () => {
    using place = scratch(AN_HOUR);
    await using berth = await startBerth(place);
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    for (const name of ['stays', 'tmp-session', 'tmp-admin']) assert.ok(await sftp.put(name, name));
    await until('they were received', async () => (await received(berth, directory)) === 3);
    await berth.stop();
    assert.equal((await sftp.rename('tmp-session', 'by-session')).status, 0);
    renameSync(`${directory.files}/tmp-admin`, `${directory.files}/by-admin`);
    assert.ok(await sftp.put('tmp-late', 'tmp-late'));
    assert.equal((await sftp.rename('tmp-late', 'late')).status, 0);
    await berth.start();
    const expected = ['by-admin 9', 'by-session 11', 'late 8', 'stays 5'];
    await untilWaiting(berth, directory, 'by-admin', 'by-session', 'late', 'stays');
    await letPass(berth, directory);
    assert.deepEqual((await announced(berth, directory, 4)).toSorted(), expected);
    const listed = await berth.uploads(directory);
    assert.deepEqual(listed.map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted(), expected);
  });

  test('without the setting, what waited is announced at the next start', async () => {
    using place = scratch(AN_HOUR);
    await using berth = await startBerth(place);
    const directory = await berth.directory();
    assert.ok(await (await session(berth, directory)).put('a', 'x'));
    await until('it was received', async () => (await received(berth, directory)) === 1);
    Object.assign(berth.config, { settleSeconds: 0 });
    await berth.stop();
    await berth.start();
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'a');
  });

  test('many files of a folder that is renamed: each once, below its new name', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    const FILES = 300;
    await sftp.request(FXP.MKDIR, 'in', 0);
    const names = Array.from({ length: FILES }, (_, i) => `file-${String(i).padStart(3, '0')}`);
    const puts = await Promise.all(names.map((name) => sftp.put(`in/${name}`, 'x')));
    assert.ok(puts.every(Boolean));
    assert.equal((await sftp.rename('in', 'out')).status, 0);
    await untilWaiting(berth, directory, ...names.map((name) => `out/${name}`));
    await letPass(berth, directory);
    const all = await announced(berth, directory, FILES);
    assert.deepEqual(
      all.toSorted(),
      names.map((name) => `out/${name} 1`),
    );
  });

  test('an administrator copies a file and renames it: its last name', async () => {
    await using berth = await later();
    const directory = await berth.directory();
    writeFileSync(`${directory.files}/copied`, 'x');
    await untilWaiting(berth, directory, 'copied');
    renameSync(`${directory.files}/copied`, `${directory.files}/final`);
    await untilWaiting(berth, directory, 'final');
    await letPass(berth, directory);
    assert.deepEqual(await announced(berth, directory, 1), ['final 1']);
  });

  for (const hours of [2, -2])
    test(`a clock that is set by ${hours} h: the name settles neither early nor hours later`, async () => {
      using place = scratch(SETTLING);
      await using berth = await startBerth(place);
      await berth.stop();
      const clock = movedClock();
      await berth.start(clock);
      const directory = await berth.directory();
      const sftp = await session(berth, directory);
      const began = performance.now();
      assert.ok(await sftp.put('a', 'x'));
      await until('it was received', async () => (await received(berth, directory)) === 1);
      clock.offset = hours * 3_600_000_000;
      const { at } = await berth.receiver.next();
      assert.ok(at - began >= MS, `it came after ${at - began} ms`);
    });
});

test('with a checker: it is checked once its name has settled, under that name; and again after its folder was renamed', async () => {
  const { place, socket } = checkedScratch(SETTLING);
  using _ = place;
  const questions: (() => void)[] = [];
  await using clamd = await fakeClamd(socket, ({ answer }) => void questions.push(() => answer('stream: OK')));
  await using at = await checkPlace(place);
  const { berth, directory } = at;
  const sftp = await session(berth, directory);
  await sftp.request(FXP.MKDIR, 'in', 0);
  const began = Date.now();
  assert.ok(await sftp.put('in/tmp1', 'good'));
  assert.equal((await sftp.rename('in/tmp1', 'in/a')).status, 0);
  await until('it is checked', () => questions.length === 1);
  assert.ok(Date.now() - began >= MS);
  const renamed = Date.now();
  assert.equal((await sftp.rename('in', 'out')).status, 0);
  await until('the row follows', async () => (await at.states()).includes('out/a checking'));
  questions[0]?.();
  await until('it is checked again', () => questions.length === 2);
  questions[1]?.();
  const { filename, uploaded_at } = webhookOf(await berth.receiver.next());
  assert.equal(filename, 'out/a');
  assert.ok(Date.parse(uploaded_at) >= renamed + MS - 1);
  assert.equal(clamd.asked.length, 2);
});

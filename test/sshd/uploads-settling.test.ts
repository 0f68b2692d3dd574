/** BERTH_SETTLE_SECONDS: an upload is announced once neither its name nor its folders' have changed for that time. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
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

/** Long enough for what a test does before a name settles, on a busy machine, too. */
const SECONDS = 5;
const SETTLING = { BERTH_SETTLE_SECONDS: String(SECONDS) };
const MS = SECONDS * 1000;
/** Times of access and modification (draft-ietf-secsh-filexfer-02, section 5). */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;

const shared = sharedBerth(SETTLING);
/** For a test in which much time passes before a name changes: until berth has seen a copied file, or hundreds of uploads. */
const patient = sharedBerth({ BERTH_SETTLE_SECONDS: '20' });
/** What waits there is not announced during a test. */
const slow = sharedBerth({ BERTH_SETTLE_SECONDS: '3600' });

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

/** The webhooks, as `atomic.json 12`, once there are that many and no more come. */
async function announced({ receiver }: TestBerth, count: number): Promise<string[]> {
  await until(`${count} are announced`, () => receiver.requests.length >= count);
  await wait(MS + 1500);
  return receiver.requests.map(webhookOf).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`);
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
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    assert.ok(await sftp.put('tmpuxfpa7qj', 'one'));
    assert.equal((await sftp.replace('tmpuxfpa7qj', 'atomic.json')).status, 0);
    assert.deepEqual(await berth.uploads(directory), []);
    assert.deepEqual(await announced(berth, 1), ['atomic.json 3']);
    assert.equal((await berth.uploads(directory)).length, 1);
    assert.ok(await sftp.put('tmp0f1k2j3h', 'second'));
    assert.equal((await sftp.replace('tmp0f1k2j3h', 'atomic.json')).status, 0);
    // The announced upload has been overwritten, and the new one is not announced yet.
    await until('the list has neither', async () => (await berth.uploads(directory)).length === 0);
    assert.deepEqual(await announced(berth, 2), ['atomic.json 3', 'atomic.json 6']);
    const [upload] = await berth.uploads(directory);
    assert.equal(berth.receiver.requests[1]?.headers['webhook-upload-id'], upload?.id);
  });

  test('Python and sqlite over a real sshfs: the final names, and no journal', async (t) => {
    const isHere = (await hasProgram('sshfs', '--version')) && (await hasProgram('python3', '-c', 'import sqlite3'));
    if (!isHere || !existsSync('/dev/fuse')) return t.skip('needs sshfs, python3 and /dev/fuse');
    await using berth = await shared();
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
    await announced(berth, 2);
    const names = berth.receiver.requests.map((request) => webhookOf(request).filename);
    assert.deepEqual(names.toSorted(), ['app.db', 'atomic.json']);
  });

  test('each rename of the file or of a folder above it begins the wait again; its times and mode do not', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    await sftp.request(FXP.MKDIR, 'in', 0);
    await sftp.request(FXP.MKDIR, 'in/deep', 0);
    assert.ok(await sftp.put('3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'guid'));
    assert.ok(await sftp.put('in/deep/below', 'below'));
    assert.ok(await sftp.put('dated', 'd'));
    const dated = () =>
      onDatabase(berth, ({ reads }) =>
        reads
          .selectFrom('files')
          .select(['named_at', 'mtime', 'state'])
          .where('directory_id', '=', directory.id)
          .where('path', '=', Buffer.from('dated'))
          .executeTakeFirst(),
      );
    await until('it has a row', async () => (await dated()) !== undefined);
    const before = await dated();
    await wait(MS / 2);
    const renamed = Date.now();
    assert.equal((await sftp.rename('3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'report.csv')).status, 0);
    assert.equal((await sftp.rename('in', 'out')).status, 0);
    await sftp.request(FXP.SETSTAT, 'dated', ...TIMES);
    await sftp.request(FXP.SETSTAT, 'dated', 4, 0o640);
    await until('the row has the new time', async () => (await dated())?.mtime === 1_700_000_000_000_000);
    const after = await dated();
    // It may have been announced since.
    if (after?.state === 'checking') assert.equal(after.named_at, before?.named_at);
    assert.deepEqual((await announced(berth, 3)).toSorted(), ['dated 1', 'out/deep/below 5', 'report.csv 4']);
    for (const { filename, uploaded_at } of berth.receiver.requests.map(webhookOf)) {
      const waited = Date.parse(uploaded_at) - renamed;
      if (filename !== 'dated') assert.ok(waited >= MS - 1, `${filename} came ${waited} ms after its rename`);
    }
  });

  test('overwritten and appended to: the last content, once; removed: never, and with it a journal of sqlite', async () => {
    await using berth = await shared();
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
      await wait(200);
      assert.equal((await sftp.request(FXP.REMOVE, 'app.db-journal')).status, 0);
    }
    assert.equal((await sftp.request(FXP.REMOVE, 'removed')).status, 0);
    assert.deepEqual((await announced(berth, 2)).toSorted(), ['longer 3', 'over 3']);
    assert.equal(await berth.storage(directory), 6);
  });

  test('a file that is open when its name has settled is announced after its close', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    assert.ok(await sftp.put('open', 'half'));
    const handle = await sftp.open('open', OPEN.write | OPEN.append);
    assert.ok(handle);
    await wait(MS + 1500);
    assert.equal(berth.receiver.requests.length, 0);
    await sftp.request(FXP.WRITE, handle, 0n, ', whole');
    await sftp.request(FXP.CLOSE, handle);
    assert.deepEqual(await announced(berth, 1), ['open 11']);
  });

  test('a client that logs out and a suspension change nothing; a deleted directory announces nothing', async () => {
    await using berth = await shared();
    const [stays, goes] = [await berth.directory(), await berth.directory()];
    for (const directory of [stays, goes]) {
      await using connection = await berth.connect(directory);
      assert.ok(await (await rawSftp(connection)).put(`of ${directory.id}`, 'x'));
    }
    for (const directory of [stays, goes])
      await until('it was received', async () => (await received(berth, directory)) === 1);
    await berth.send('PATCH', `/directories/${stays.id}/access`, { json: { directory: { suspended: true } } });
    assert.equal((await berth.send('DELETE', `/directories/${goes.id}`)).status, 204);
    assert.deepEqual(await announced(berth, 1), [`of ${stays.id} 1`]);
  });

  test('names that a request has given do not wait: a link, and the command that announces a partial file', async () => {
    await using berth = await slow();
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
    await using berth = await slow();
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
});

void describe('a name that may still change while berth is away', { concurrency: true }, () => {
  test('after a restart it waits on; what was renamed meanwhile has its final name', async () => {
    using place = scratch(SETTLING);
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
    assert.deepEqual((await announced(berth, 4)).toSorted(), expected);
    const listed = await berth.uploads(directory);
    assert.deepEqual(listed.map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted(), expected);
  });

  test('without the setting, what waited is announced at the next start', async () => {
    using place = scratch({ BERTH_SETTLE_SECONDS: '3600' });
    await using berth = await startBerth(place);
    const directory = await berth.directory();
    assert.ok(await (await session(berth, directory)).put('a', 'x'));
    await until('it was received', async () => (await received(berth, directory)) === 1);
    Object.assign(berth.config, { settleSeconds: 0 });
    await berth.stop();
    await berth.start();
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'a');
  });
});

void describe('alone on its machine', { concurrency: true }, () => {
  test('many files of a folder that is renamed: each once, below its new name', async () => {
    await using berth = await patient();
    const directory = await berth.directory();
    const sftp = await session(berth, directory);
    const FILES = 300;
    await sftp.request(FXP.MKDIR, 'in', 0);
    const names = Array.from({ length: FILES }, (_, i) => `file-${String(i).padStart(3, '0')}`);
    const puts = await Promise.all(names.map((name) => sftp.put(`in/${name}`, 'x')));
    assert.ok(puts.every(Boolean));
    assert.equal((await sftp.rename('in', 'out')).status, 0);
    await until('all are announced', () => berth.receiver.requests.length >= FILES);
    const filenames = berth.receiver.requests.map((request) => webhookOf(request).filename);
    assert.deepEqual(
      filenames.toSorted(),
      names.map((name) => `out/${name}`),
    );
  });

  test('an administrator copies a file and renames it: its last name', async () => {
    await using berth = await patient();
    const directory = await berth.directory();
    writeFileSync(`${directory.files}/copied`, 'x');
    await until('it was received', async () => (await received(berth, directory)) === 1);
    renameSync(`${directory.files}/copied`, `${directory.files}/final`);
    assert.deepEqual(await announced(berth, 1), ['final 1']);
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

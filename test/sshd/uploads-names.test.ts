/** Names that are hard to log: each upload ends in the right row and webhook. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, rawSftp } from '../support/raw-sftp.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

void describe('names', { concurrency: true }, () => {
  test('quotes, newlines, backslashes, escapes and imitated log lines', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    const names = [
      'a"b',
      'new\nline',
      'back\\slash',
      '\u{1b}[31mred',
      ' spaces ',
      'x" bytes read 0 written 9',
      '"',
      '\\n',
      'ünï',
      '日本',
    ];
    for (const name of names) await session.put(name, name);
    const announced = [];
    for (const _ of names) announced.push(webhookOf(await berth.receiver.next()));
    assert.deepEqual(announced.map(({ filename }) => filename).toSorted(), names.toSorted());
    for (const { filename, size_bytes } of announced) assert.equal(size_bytes, Buffer.byteLength(filename));
  });

  test('a file with a name beyond ASCII stays open while the journal is compacted: what follows is heard', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await rawSftp(connection);
    const handle = await session.open('日本.csv', CREATE_ANEW);
    assert.ok(handle);
    const journal = join(berth.place.config.stateDir, 'journal', directory.login.username);
    const isCompacted = (): boolean => existsSync(journal) && readFileSync(journal, 'utf8').startsWith('{"base":');
    await until('the journal is compacted', isCompacted);
    await session.request(FXP.WRITE, handle, 0n, 'whole');
    await session.request(FXP.CLOSE, handle);
    assert.equal(webhookOf(await berth.receiver.next()).filename, '日本.csv');
  });

  test('names that differ only in bytes that are not UTF-8 stay two files, shown with U+FFFD', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const raw = join(berth.place.dir, 'raw');
    mkdirSync(raw);
    const name = (byte: number): Buffer => Buffer.from([0x61, byte]);
    const local = (byte: number): Buffer => Buffer.concat([Buffer.from(`${raw}/`), name(byte)]);
    writeFileSync(local(0xff), '1');
    writeFileSync(local(0xfe), '22');
    const { code, output } = await sftp(berth.place.dir, directory.login, ['put raw/*']);
    assert.equal(code, 0, output);
    const shown = [webhookOf(await berth.receiver.next()), webhookOf(await berth.receiver.next())];
    assert.deepEqual(
      shown.toSorted((a, b) => a.size_bytes - b.size_bytes).map(({ filename, size_bytes }) => [filename, size_bytes]),
      [
        ['a\u{fffd}', 1],
        ['a\u{fffd}', 2],
      ],
    );
    assert.equal((await berth.uploads(directory)).length, 2);
    assert.equal(await berth.storage(directory), 3);
    // Removed by an administrator: the watcher cannot name it, so the directory is scanned.
    rmSync(Buffer.concat([Buffer.from(`${directory.files}/`), name(0xff)]));
    await until('one is left', async () => (await berth.uploads(directory)).length === 1);
    assert.equal(await berth.storage(directory), 2);
  });

  test('names and paths longer than a log line', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    const long = `${'名'.repeat(80)}.csv`; // 244 bytes, 964 characters in the log
    await session.put(long, 'abc');
    const hook = webhookOf(await berth.receiver.next());
    assert.deepEqual([hook.filename, hook.size_bytes], [long, 3]);

    let path = '';
    for (let depth = 0; depth < 200; depth++) {
      path += `${depth === 0 ? '' : '/'}d${depth}`;
      await session.mkdir(path);
    }
    await session.put(`${path}/deep`, 'deep!');
    const deep = webhookOf(await berth.receiver.next());
    assert.deepEqual([deep.filename, deep.size_bytes], [`${path}/deep`, 5]);

    await session.rename(long, 'short');
    await until('the row has moved', async () =>
      (await berth.uploads(directory)).some(({ filename }) => filename === 'short'),
    );
    assert.equal(berth.receiver.requests.length, 2);

    const cut = await session.open('字'.repeat(80), 'w');
    await session.write(cut, 'half');
    connection.drop();
    await until('the partial file is counted', async () => (await berth.storage(directory)) === 12);
    assert.equal((await berth.uploads(directory)).length, 2, 'a forced close is not an upload, however long the name');
  });

  test('uploads whose names begin alike, further than a log line shows: the one that was cut off is never announced', async () => {
    await using berth = await shared();
    const directory = await berth.directory();
    const connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    const folder = '名'.repeat(60); // 720 characters in the log
    await session.mkdir(folder);
    const whole = Array.from({ length: 6 }, (_, index) => `${folder}/whole-${index}`);
    for (const name of whole) await session.put(name, 'whole');
    const announced = (): string[] => berth.receiver.requests.map((request) => webhookOf(request).filename).toSorted();
    await until('the whole ones are announced', () => announced().length === whole.length);
    const cut = await session.open(`${folder}/half`, 'w');
    await session.write(cut, 'half');
    // It ends beside one that was cut off, and only the log could tell which is which: an operator decides.
    await session.put(`${folder}/beside`, 'beside');
    connection.drop();
    await until('all is counted', async () => (await berth.storage(directory)) === 40);
    const listed = (await berth.uploads(directory)).map(({ filename }) => filename);
    assert.ok(!listed.includes(`${folder}/half`));
    assert.deepEqual(listed.filter((name) => name !== `${folder}/beside`).toSorted(), whole);
    assert.deepEqual(
      announced().filter((name) => name !== `${folder}/beside`),
      whole,
    );
  });
});

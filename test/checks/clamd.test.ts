/** Uploads that are checked by ClamAV's protocol: nothing is announced before its check. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { apiClient } from '../support/api-client.ts';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { fakeClamd, quarantineOf, questions, sharedChecks } from './check-place.ts';

const { socket, shared } = sharedChecks();

test('a clean file is announced once it has passed, and is listed nowhere before', async () => {
  const { decide, next } = questions();
  await using clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth, directory } = at;
  await at.put('report.csv', 'all is well');
  const asked = await next();
  assert.deepEqual(await at.states(), ['report.csv checking']);
  assert.deepEqual(await at.listed(), []);
  const [row] = await at.held();
  const content = await berth.send('GET', `/directories/${directory.id}/uploads/${row?.id}/content`);
  const byPath = await berth.send('GET', `/directories/${directory.id}/files/report.csv`);
  assert.deepEqual([content.status, byPath.status], [404, 404]);
  assert.equal(await berth.storage(directory), 11);
  assert.deepEqual([row?.filename, row?.state], ['report.csv', 'checking']);
  assert.equal(berth.receiver.requests.length, 0);
  const before = new Date().toISOString();
  asked.answer('stream: OK');
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['report.csv', 11]);
  assert.ok(hook.uploaded_at >= before);
  assert.deepEqual(await at.listed(), ['report.csv']);
  assert.deepEqual(await at.history(), ['received report.csv', 'uploaded report.csv']);
  assert.deepEqual(clamd.asked.map(String), ['all is well']);
  assert.deepEqual(await at.held(), []);
  const explained = await at.explain();
  assert.match(explained, /127\.0\.0\.1\s.*Customer sent report\.csv \(\d+ bytes\), which was held back/);
  assert.match(explained, /127\.0\.0\.1\s.*Customer uploaded report\.csv/);
});

test('an upload by link is checked like any other', async () => {
  const { decide, next } = questions();
  await using _clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth, directory } = at;
  const client = apiClient({ port: berth.service().port, ca: readFileSync(berth.config.tls.cert), key: berth.key });
  using __ = client;
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const json = { for: 'upload', path: 'by-link', max_bytes: 100, expires_at };
  const made = await berth.send('POST', `/directories/${directory.id}/links`, { json });
  const { pathname, search } = new URL((made.json as { data: { url: string } }).data.url.replace(/:0\//, '/'));
  for (const [content, said] of [
    ['fine', 'stream: OK'],
    ['evil', 'stream: Bad-Signature FOUND'],
  ] as const) {
    const sent = await client.send('PUT', `/${pathname}${search}`, { body: content, authorization: null });
    assert.equal(sent.status, 201);
    const asked = await next();
    assert.equal(String(asked.content), content);
    assert.deepEqual(await at.states(), ['by-link checking']);
    asked.answer(said);
    if (content === 'fine') assert.equal(webhookOf(await berth.receiver.next()).filename, 'by-link');
  }
  await at.untilHeld('it is rejected', ([first]) => first?.state === 'rejected');
  assert.deepEqual(readdirSync(directory.files), []);
  assert.equal(berth.receiver.requests.length, 1);
  const explained = await at.explain();
  for (const event of ['A link sent', 'A link uploaded'])
    assert.match(explained, new RegExp(`127\\.0\\.0\\.1\\s.*${event} by-link`));
  assert.match(explained, /The file check rejected by-link/);
});

test('a rejected file goes to the quarantine, out of its jail, and is never announced', async () => {
  await using _clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  await at.put('fine', 'fine');
  await at.put('evil', 'bad bytes');
  await at.untilHeld('it is rejected', ([first]) => first?.state === 'rejected');
  const [file] = await at.held();
  assert.deepEqual([file?.filename, file?.reason], ['evil', 'Bad-Signature']);
  assert.deepEqual(readdirSync(directory.files), ['fine']);
  assert.deepEqual(quarantineOf(at), [file?.id]);
  assert.deepEqual(await at.listed(), ['fine']);
  assert.equal(await berth.storage(directory), 4);
  assert.ok((await at.history()).includes('rejected evil'));
  assert.ok(!(await at.history()).includes('uploaded evil'));
  assert.deepEqual(
    berth.receiver.requests.map((each) => webhookOf(each).filename),
    ['fine'],
  );
  assert.match(await at.explain(), /The file check rejected evil \(9 bytes\): Bad-Signature/);
});

test('an operator releases a rejected file: it is back at its path, and announced', async () => {
  await using _clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.mkdir('in');
  await session.put('in/evil', 'bad bytes');
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  // The folder may have gone meanwhile.
  await session.rmdir('in');
  const [file] = await at.held();
  const { status, stdout, stderr } = await at.run('release', file?.id ?? '');
  assert.deepEqual([status, stdout], [0, `Released in/evil (9 bytes) of ${directory.username}\n`], stderr);
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], ['in/evil', 9]);
  assert.equal(readFileSync(join(directory.files, 'in/evil'), 'utf8'), 'bad bytes');
  assert.deepEqual([await at.listed(), await at.held(), quarantineOf(at)], [['in/evil'], [], []]);
  assert.equal(await berth.storage(directory), 9);
  assert.deepEqual(await at.audit(), ['release-file operator:alice']);
  const again = await at.run('release', file?.id ?? '');
  assert.match(again.stderr, /there is no such file/);
});

test('a release does not replace a newer file of that name; a deletion removes file and entry', async () => {
  await using _clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  await at.put('report', 'bad bytes');
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  await at.put('report', 'good bytes');
  await berth.receiver.next();
  const [file] = await at.held();
  const refused = await at.run('release', file?.id ?? '');
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /Another file has the name report by now/);
  assert.equal(readFileSync(join(directory.files, 'report'), 'utf8'), 'good bytes');
  assert.equal((await at.held()).length, 1);
  const unasked = await at.run('delete', file?.id ?? '');
  assert.equal(unasked.status, 1);
  const { status, stdout, stderr } = await at.run('delete', '--yes', file?.id ?? '');
  assert.deepEqual([status, stdout], [0, `Deleted report (9 bytes) of ${directory.username}\n`], stderr);
  assert.deepEqual([await at.held(), quarantineOf(at), await at.listed()], [[], [], ['report']]);
  assert.deepEqual(await at.audit(), ['remove-file operator:alice']);
});

test('a release is refused, and not in the audit, where a file is being written, or is a folder of the path', async () => {
  await using _clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.mkdir('d');
  for (const name of ['report', 'd/report']) await session.put(name, 'bad bytes');
  await until('both are rejected', async () => quarantineOf(at).length === 2);
  const idOf = async (name: string) => (await at.held()).find(({ filename }) => filename === name)?.id ?? '';
  await session.write(await session.open('report', 'w'), 'half');
  assert.match((await at.run('release', await idOf('report'))).stderr, /Another file has the name report by now/);
  await session.rmdir('d');
  await session.put('d', 'good bytes');
  const refused = await at.run('release', await idOf('d/report'));
  assert.match(refused.stderr, /: A folder of d\/report is a file by now: rename or delete that one first\n$/);
  assert.deepEqual(await at.audit(), []);
  await session.remove('d');
  assert.equal((await at.run('release', await idOf('d/report'))).status, 0);
  assert.deepEqual(await at.audit(), ['release-file operator:alice']);
});

test('a file that waits for its check can be released, or deleted, too', async () => {
  await using at = await shared();
  const { berth, directory } = at;
  assert.equal(existsSync(socket), false, 'there is no checker');
  await at.put('one', '1');
  await at.put('two', '2');
  await at.untilHeld('both wait', (held) => held.length === 2);
  const [one, two] = await at.held();
  assert.equal((await at.run('release', one?.id ?? '')).status, 0);
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'one');
  assert.equal((await at.run('delete', '--yes', two?.id ?? '')).status, 0);
  assert.deepEqual([await at.held(), readdirSync(directory.files)], [[], ['one']]);
  assert.equal(await berth.storage(directory), 1);
});

test('a file that is overwritten while it is checked is announced as what it is then, after another check', async () => {
  const { decide, next } = questions();
  await using clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth } = at;
  await at.put('report', 'first');
  const first = await next();
  await at.put('report', 'second, longer');
  first.answer('stream: OK');
  const second = await next();
  assert.equal(berth.receiver.requests.length, 0);
  second.answer('stream: OK');
  assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 14);
  assert.deepEqual(clamd.asked.map(String), ['first', 'second, longer']);
  assert.equal((await at.history()).filter((text) => text === 'uploaded report').length, 1);
  assert.equal(berth.receiver.requests.length, 1);
});

test('new bytes of the same size and time are not covered by the check of the old ones', async () => {
  const { decide, next, waiting } = questions();
  await using clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('report', 'good');
  await session.set('report', { atime: 1_700_000_000, mtime: 1_700_000_000 });
  // The row knows that time, so that it tells nothing of the new bytes.
  await until('the row has the time', async () => (await at.mtimes()).join() === '1700000000000000');
  const first = await next();
  // The session keeps the file open, so the upload has not ended.
  const handle = await session.open('report', 'r+');
  await session.write(handle, 'evil');
  await session.set('report', { atime: 1_700_000_000, mtime: 1_700_000_000 });
  first.answer('stream: OK');
  for (let answered = 0; answered < 3; answered += 1) {
    const more = waiting.shift();
    more?.answer('stream: OK');
    await until('the answer is heard', async () => (await at.states()).length === 1);
  }
  assert.deepEqual(await at.states(), ['report checking']);
  await session.close(handle);
  for (;;) {
    const asked = await next();
    asked.answer(asked.content.includes('evil') ? 'stream: Evil FOUND' : 'stream: OK');
    if (asked.content.includes('evil')) break;
  }
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  assert.equal(berth.receiver.requests.length, 0);
  assert.ok(clamd.asked.some((content) => content.includes('evil')));
});

test('a file that is renamed while it is checked is announced under its new name, one that is removed not at all', async () => {
  const { decide, next } = questions();
  await using _clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('old', 'moving');
  const first = await next();
  await session.rename('old', 'new');
  await until('the row follows', async () => (await at.states()).join() === 'new checking');
  first.answer('stream: OK');
  (await next()).answer('stream: OK');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'new');
  assert.deepEqual(await at.history(), ['received old', 'uploaded new']);
  await session.put('gone', 'going');
  const second = await next();
  await session.remove('gone');
  second.answer('stream: Bad FOUND');
  await until('its row has gone', async () => (await at.states()).join() === 'new uploaded');
  assert.deepEqual(quarantineOf(at), []);
  assert.equal(berth.receiver.requests.length, 1);
});

test('files that an administrator copies in and files under temporary names are checked, too', async () => {
  await using clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('big.part', 'in parts');
  await until('it waits', async () => (await at.states()).join() === 'big.part waiting');
  assert.deepEqual(clamd.asked, []);
  await session.rename('big.part', 'big');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'big');
  const outside = join(berth.config.jailDir, 'copied');
  writeFileSync(outside, 'a bad copy');
  renameSync(outside, join(directory.files, 'copied'));
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  assert.deepEqual(clamd.asked.map(String), ['in parts', 'a bad copy']);
  assert.equal(berth.receiver.requests.length, 1);
});

test('when BERTH_CHECK is removed, what was in check is announced at the next start, and rejected files can be released', async () => {
  await using at = await shared();
  const { berth } = at;
  {
    await using _clamd = await fakeClamd(socket);
    await at.put('evil', 'bad');
    await until('it is rejected', async () => quarantineOf(at).length === 1);
  }
  await at.put('one', 'one');
  await at.untilHeld('it waits', (held) => held.length === 2);
  await berth.stop();
  const service = await startService({ ...berth.config, check: undefined }, { log: createLog('error') });
  try {
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'one');
    await at.put('two', 'two');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'two');
    const [evil] = await at.held();
    assert.equal((await at.run('release', evil?.id ?? '')).status, 0);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'evil');
    assert.deepEqual(await at.states(), ['evil uploaded', 'one uploaded', 'two uploaded']);
  } finally {
    await service.close();
    await berth.start();
  }
});

test('a partial file that an operator announces is checked like any other', async () => {
  await using _clamd = await fakeClamd(socket);
  await using at = await shared();
  const { berth, directory } = at;
  const connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.write(await session.open('evil', 'w'), 'bad half');
  connection.drop();
  await until('it is partial', async () => (await at.states()).join() === 'evil partial');
  const id = await at.partial();
  const { status, stdout } = await at.command('partial', 'announce', id);
  assert.deepEqual([status, stdout], [0, `Sent to the check: evil (8 bytes) of ${directory.username}\n`]);
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  assert.equal(berth.receiver.requests.length, 0);
});

test('bytes that change behind a time that does not are noticed by the kernel’s change time', async () => {
  const { decide, next } = questions();
  await using _clamd = await fakeClamd(socket, decide);
  await using at = await shared();
  const { berth, directory } = at;
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('report', 'good');
  await session.set('report', { atime: 1_700_000_000, mtime: 1_700_000_000 });
  await until('the row has the time', async () => (await at.mtimes()).join() === '1700000000000000');
  const first = await next();
  // An administrator writes it in place, which the log does not show.
  const file = join(directory.files, 'report');
  writeFileSync(file, 'evil');
  utimesSync(file, 1_700_000_000, 1_700_000_000);
  first.answer('stream: OK');
  for (let isEvil = false; !isEvil;) {
    const asked = await next();
    isEvil = asked.content.toString() === 'evil';
    asked.answer(isEvil ? 'stream: Evil FOUND' : 'stream: OK');
  }
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  assert.equal(berth.receiver.requests.length, 0);
});

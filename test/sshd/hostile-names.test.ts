/** Misleading names: each upload gets its own row and webhook, and none affects another name or directory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Any bytes, written as Latin-1. */
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
const decoded = (name: Buffer): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(name);

test('names that imitate log lines, escape, end lines or are no text at all', async () => {
  await using berth = await shared();
  const victim = await berth.directory();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  const line = `session opened for local user ${victim.username} from [10.0.0.1]`;
  const names = [
    'x" bytes read 0 written 9',
    'x" bytes read 0 written 9\n',
    '" bytes read 0 written 9',
    'close "victim" bytes read 0 written 9',
    'forced close "x',
    'x" flags WRITE,CREATE,TRUNCATE mode 0666',
    'a" new "b',
    line,
    `\n${line}`,
    `\n<38>Nov 20 20:50:00 internal-sftp[1]: ${line}`,
    `session closed for local user ${victim.username} from [10.0.0.1]`,
    'sent status Failure',
    '\\',
    '\\\\" bytes read 1 written 1',
    '\\n\\000\\012',
    '\\',
    '\x1b]0;title\x07\x1b[2J',
    '\r\b\t\v\f\x7f',
    '\xff\xfe\xc0\xaf',
    '\xe2\x80\xae',
    ' ',
    '...',
    '-rf',
    '%s%n%500s',
    '$(reboot)`id`;|&',
    "'; drop table files; --",
    'n'.repeat(255),
    '\xff'.repeat(255),
    `${'"'.repeat(100)} new "${'\\'.repeat(100)}`,
  ].map(bytes);
  const unique = [...new Map(names.map((name) => [name.toString('latin1'), name])).values()];
  const sizes = new Map<string, number>();
  for (const [index, name] of unique.entries()) {
    assert.ok(await session.put(name, 'x'.repeat(index + 1)), decoded(name));
    sizes.set(decoded(name), index + 1);
  }
  connection.client.end(); // a name that begins with a dot may be temporary while the session lives
  const announced = new Map<string, number>();
  for (const _ of unique) {
    const { filename, size_bytes: size, directory_id: id } = webhookOf(await berth.receiver.next());
    assert.equal(id, directory.id);
    announced.set(filename, size);
  }
  const sorted = (map: Map<string, number>) => [...map].toSorted(([, a], [, b]) => a - b);
  assert.deepEqual(sorted(announced), sorted(sizes));
  const rows = (await berth.uploads(directory)).map(({ filename, size_bytes }) => [filename, size_bytes] as const);
  assert.deepEqual(sorted(new Map(rows)), sorted(sizes));
  assert.equal(rows.length, unique.length);
  assert.deepEqual(await berth.uploads(victim), []);
  assert.equal(await berth.storage(victim), 0);
});

test('one file by many spellings is one file; a path outside is refused and not echoed', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  await session.request(FXP.MKDIR, 'd', NO_ATTRIBUTES);
  const spellings = [
    'f',
    './f',
    '/files/f',
    '//files///f',
    'd/../f',
    '../files/f',
    '/files/../files/./d/../f',
    '/../files/f',
  ];
  for (const [index, name] of spellings.entries()) {
    assert.ok(await session.put(name, 'x'.repeat(index + 1)), name);
    const hook = webhookOf(await berth.receiver.next());
    assert.deepEqual([hook.filename, hook.size_bytes], ['f', index + 1]);
  }
  const outside = [
    '',
    '.',
    '..',
    '/',
    '/x',
    '../x',
    '/dev/x',
    '/dev/log',
    '/etc/passwd',
    'nowhere/../f',
    'f/../f',
    'f/',
    'f/.',
  ];
  for (const name of [...outside, 'n'.repeat(256), 'd/'.repeat(3000)]) {
    assert.equal(await session.open(name, CREATE_ANEW), undefined, name.slice(0, 20));
    const [removed, renamed] = [await session.request(FXP.REMOVE, name), await session.rename('f', name)];
    assert.notEqual(removed.status, 0, name);
    assert.notEqual(renamed.status, 0, name);
  }
  // One more upload shows that whatever was said of the others has been read.
  assert.ok(await session.put('last', 'x'));
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'last');
  assert.deepEqual((await berth.uploads(directory)).map(({ filename }) => filename).toSorted(), ['f', 'last']);
  assert.equal(await berth.storage(directory), spellings.length + 1);
});

test('folders 200 deep, and names whose common beginning fills a whole log line', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  let path = bytes('');
  for (let depth = 0; depth < 200; depth++) {
    path = Buffer.concat([path, bytes('"\xff/')]);
    assert.equal((await session.request(FXP.MKDIR, path, NO_ATTRIBUTES)).status, 0);
  }
  // They differ only behind what sshd logs, and one of them is still being written.
  const name = (end: string): Buffer => Buffer.concat([path, bytes(end)]);
  const half = await session.open(name('half'), CREATE_ANEW);
  assert.ok(half);
  await session.request(FXP.WRITE, half, 0n, '1234567');
  for (const [index, end] of ['a', 'b', '" bytes read 0 written 9', 'a" new "b'].entries()) {
    assert.ok(await session.put(name(end), 'x'.repeat(index + 1)));
    const hook = webhookOf(await berth.receiver.next());
    assert.deepEqual([hook.filename, hook.size_bytes], [decoded(name(end)), index + 1]);
  }
  assert.equal((await session.replace(name('a'), name('b'))).status, 0);
  await until('b is what a was', async () => (await berth.storage(directory)) === 1 + 3 + 4);
  await session.request(FXP.CLOSE, half);
  const hook = webhookOf(await berth.receiver.next());
  assert.deepEqual([hook.filename, hook.size_bytes], [decoded(name('half')), 7]);
  assert.deepEqual(
    (await berth.uploads(directory)).map(({ size_bytes }) => size_bytes).toSorted((a, b) => a - b),
    [1, 3, 4, 7],
  );
});

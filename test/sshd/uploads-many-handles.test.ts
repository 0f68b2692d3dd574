/**
 * Sessions with thousands of open handles, whose state in the journal takes megabytes: a restart reads all of it correctly.
 */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';

const SESSIONS = 3;
/** Less than the descriptors that a session may have. */
const HANDLES = 930;
/** sshd logs a control character as four characters and shows some 500 in all; JSON writes it as six. */
const LONG = '\x01'.repeat(105);
/** In bytes. More than a record may have, and than the journal may grow by before it is read (journal-pieces.ts, journal-reader.ts). */
const STATE = 4.5e6;

test('a state of more than 4 MiB: after a restart each close is heard and announced', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  await using closing = new AsyncDisposableStack();
  const journal = join(berth.config.stateDir, 'journal', directory.username);
  const opened = await Promise.all(
    Array.from({ length: SESSIONS }, async (_, session) => {
      const sftp = await rawSftp(closing.use(await berth.connect(directory)));
      const names = Array.from({ length: HANDLES }, (_each, index) => `${LONG}-${session}-${index}`);
      const handles = await Promise.all(names.map((name) => sftp.open(name, CREATE_ANEW)));
      assert.ok(handles.every((handle) => handle !== undefined));
      return { sftp, handles };
    }),
  );
  const last = opened.at(-1);
  assert.ok(last);
  const announced = (): string[] =>
    berth.receiver.requests.map((request) => webhookOf(request).filename.replaceAll('\x01', '')).sort();
  assert.ok(await last.sftp.put('a', 'early'));
  await until('all lines before it have been read', () => announced().length === 1);
  const isCompacted = (): boolean => statSync(journal).size > STATE && readFileSync(journal).indexOf('\n') > STATE;
  await until('the journal begins with a state of that size', isCompacted);
  await berth.stop();
  await berth.start();

  const ends = opened.map(async ({ sftp, handles }) => {
    const [handle = Buffer.alloc(0)] = handles;
    void sftp.request(FXP.WRITE, handle, 0n, 'whole');
    assert.equal((await sftp.request(FXP.CLOSE, handle)).status, 0);
  });
  await Promise.all(ends);
  const ended = opened.map((_, session) => `-${session}-0`);
  await until('they are announced', () => announced().length === SESSIONS + 1);
  await berth.stop();
  await berth.start();
  assert.ok(await last.sftp.put('b', 'later'));
  await until('that is announced, too', () => announced().length === SESSIONS + 2);
  assert.deepEqual(announced(), [...ended, 'a', 'b']);
  assert.deepEqual(new Set((await berth.uploads(directory)).map(({ size_bytes }) => size_bytes)), new Set([5]));
});

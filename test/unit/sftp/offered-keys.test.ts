/** What sshd's helper notes about offered keys, and how its notes could block or mislead berth. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { offeredKeys } from '../../../src/machine/sftp/used-public-keys.ts';
import { scratch } from '../../support/scratch.ts';

import assert from 'node:assert/strict';

const FINGERPRINT = `SHA256:${'A'.repeat(43)}`;
const NOTE = `123 456 ${FINGERPRINT}\n`;

test('a note of a live session names its key; pipes, links, sockets, folders and large files are ignored', async () => {
  using place = scratch();
  const paths = { offeredKeys: join(place.dir, 'offered'), sessions: join(place.dir, 'sessions') };
  mkdirSync(paths.offeredKeys);
  mkdirSync(join(paths.sessions, 'ann'), { recursive: true });
  const note = join(paths.offeredKeys, 'ann');
  assert.equal(offeredKeys(paths, 'ann').at(-1), undefined);
  writeFileSync(note, NOTE);
  assert.equal(offeredKeys(paths, 'ann').at(-1), undefined, 'its session has not begun');
  writeFileSync(join(paths.sessions, 'ann', '123'), '456');
  assert.equal(offeredKeys(paths, 'ann').at(-1)?.fingerprint, FINGERPRINT);

  const real = join(place.dir, 'real');
  writeFileSync(real, NOTE);
  const socket = createServer();
  const wrong: Record<string, () => unknown> = {
    // Nobody writes into it: a blocking open for reading would wait for ever.
    'a pipe': () => execFileSync('mkfifo', [note]),
    'a link': () => symlinkSync(real, note),
    'a link to nothing': () => symlinkSync('/nowhere', note),
    'a link to a device': () => symlinkSync('/dev/zero', note),
    'a folder': () => mkdirSync(note),
    'a large file': () => writeFileSync(note, NOTE.padEnd(10_000_000)),
    'another text': () => writeFileSync(note, 'text'),
    'a socket': () => new Promise<void>((resolve) => void socket.listen(note, resolve)),
  };
  for (const [name, make] of Object.entries(wrong)) {
    rmSync(note, { recursive: true, force: true });
    await make();
    assert.equal(offeredKeys(paths, 'ann').at(-1), undefined, name);
  }
  socket.close();
});

/** One socket in many jails: what happens when the file system allows no further link to it. */
import assert from 'node:assert/strict';
import { linkSync, lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { errorCode } from '../../../src/foundation/base/errors.ts';
import { pathsOf } from '../../../src/machine/sftp/paths.ts';
import { scratch } from '../../support/scratch.ts';
import { directory, hostOf, openSockets } from '../../support/sftp-user.ts';

test('when a socket has all its links, the next one is linked and the directory is live with it', async (context) => {
  using place = scratch();
  const paths = pathsOf(place.config);
  await using first = hostOf(paths);
  await using sockets = await openSockets(paths, 2);
  await using host = hostOf(paths, sockets);
  assert.ok(first);
  const [socket = '', next = ''] = sockets.socketsFor('');
  if (!exhaust(socket, place.dir)) {
    context.skip('this file system sets no limit below 70,000');
    return;
  }
  const row = directory();
  await host.apply(row);
  assert.equal(lstatSync(join(paths.jail(row.sftp_username), 'dev', 'log')).ino, lstatSync(next).ino);
  assert.equal(host.isApplied(row), true);
});

function exhaust(file: string, dir: string): boolean {
  const links = join(dir, 'links');
  mkdirSync(links);
  try {
    for (let i = 0; i < 70_000; i++) linkSync(file, join(links, String(i)));
    return false;
  } catch (error) {
    if (errorCode(error) === 'EMLINK') return true;
    throw error;
  }
}

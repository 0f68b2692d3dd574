/** Opening files below a hostile folder as root: no component that is a link is followed. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  enterEntry,
  enterFolder,
  entriesOf,
  lstatBeneath,
  openFolder,
  statusBeneath,
  unlinkBeneath,
} from '../../../src/foundation/base/beneath.ts';
import { scratch } from '../../support/scratch.ts';

test('a link as any component leads nowhere', async () => {
  using place = scratch();
  const root = join(place.dir, 'root');
  const outside = join(place.dir, 'outside');
  mkdirSync(join(root, 'folder'), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), 'kept');
  symlinkSync(outside, join(root, 'link'));
  symlinkSync(outside, join(root, 'folder', 'link'));

  assert.equal(lstatBeneath(root, Buffer.from('link/secret')), undefined);
  assert.equal(lstatBeneath(root, Buffer.from('folder/link/secret')), undefined);
  assert.equal(unlinkBeneath(root, Buffer.from('link/secret')), false);
  assert.throws(() => openFolder(root, Buffer.from('link')), { code: 'ENOTDIR' });
  assert.equal(await statusBeneath(root, Buffer.from('link/secret')), undefined);
  assert.equal(await statusBeneath(root, Buffer.from('folder/link/secret')), undefined);
  await assert.rejects(enterFolder(root, Buffer.from('link')), { code: 'ENOTDIR' });
  await using folder = await enterFolder(root, Buffer.from('folder'));
  await assert.rejects(enterEntry(folder, Buffer.from('link')), { code: 'ENOTDIR' });
  assert.equal(lstatBeneath(root, Buffer.from('link'))?.isSymbolicLink(), true);
  assert.equal(unlinkBeneath(root, Buffer.from('link')), true, 'the link itself goes');
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'kept');
});

test('a root that is a link is not entered', async () => {
  using place = scratch();
  mkdirSync(join(place.dir, 'real'));
  writeFileSync(join(place.dir, 'real', 'file'), '');
  symlinkSync(join(place.dir, 'real'), join(place.dir, 'root'));
  assert.equal(lstatBeneath(join(place.dir, 'root'), Buffer.from('file')), undefined);
  assert.equal(await statusBeneath(join(place.dir, 'root'), Buffer.from('file')), undefined);
});

test('an open folder stays the same one when its path is swapped, and names may be any bytes', async () => {
  using place = scratch();
  const name = Buffer.from([0x66, 0xff, 0x22, 0x0a]);
  writeFileSync(Buffer.concat([Buffer.from(`${place.dir}/`), name]), 'x');
  await using folder = await enterFolder(place.dir);
  const entries: string[][] = [];
  for await (const entry of entriesOf(folder)) entries.push([entry.name.toString('latin1'), entry.kind]);
  assert.deepEqual(entries, [[name.toString('latin1'), 'file']]);
  assert.equal(lstatBeneath(place.dir, name)?.size, 1);
  assert.equal((await statusBeneath(place.dir, name))?.size, 1);
});

/** A look takes a moment, and its customer may rename the file within it. */
import assert from 'node:assert/strict';
import { lstatSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Files } from '../../src/uploads/record/files.ts';
import { fileStat } from '../../src/uploads/record/file-stat.ts';
import { lookAt } from '../../src/uploads/record/look.ts';
import { Doubts } from '../../src/uploads/record/doubts.ts';
import { Namespace } from '../../src/uploads/record/namespace.ts';
import { Unmatched } from '../../src/uploads/record/unmatched.ts';
import { ROW } from '../support/looks.ts';
import { scratch } from '../support/scratch.ts';

const JAIL = { id: 'd', sftp_username: 'u' };

test('the row at its path is no twin of its own, though the file is renamed while it is looked at', async () => {
  using place = scratch();
  const [path, other] = [join(place.dir, 'a'), join(place.dir, 'b')];
  writeFileSync(path, 'longer than its row');
  const row = { ...ROW, directory_id: JAIL.id, inode: fileStat(lstatSync(path)).inode };
  // What the database answers, with the rename where it cannot be put on demand.
  const files: Pick<Files, 'at' | 'ofInode' | 'placementOf'> = {
    async at() {
      renameSync(path, other);
      return row;
    },
    ofInode: async () => [row],
    placementOf: async () => undefined,
  };
  const sight = await lookAt(new Namespace(JAIL).ensure('a'), files as Files, ROW.uploaded_at, {
    node: '',
    filesRoot: () => place.dir,
    isTemporary: () => false,
    livePids: () => [],
    unmatched: new Unmatched(),
    doubts: new Doubts(undefined),
  });
  assert.equal(sight.row, row);
  assert.equal(sight.twin, undefined);
});

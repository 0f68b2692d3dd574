/** How many transactions a burst needs: an operation that waits holds back only those that are related to it. */
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

const FILES = 40;

test('files that were renamed before their lines are read share transactions', async () => {
  let commits = 0;
  const isTemporary = (path: string): boolean => path.endsWith('.part');
  await using at = await recordingPlace({ isTemporary, committed: () => void (commits += 1) });
  const names = Array.from({ length: FILES }, (_, index) => `file-${String(index).padStart(2, '0')}`);
  for (const name of names) {
    at.write(`${name}.part`, 'xxxxx');
    renameSync(join(at.files, `${name}.part`), join(at.files, name));
  }
  for (const name of names)
    at.logged(
      1,
      `open "${name}.part" ${WRITE}`,
      `close "${name}.part" bytes read 0 written 5`,
      `rename old "${name}.part" new "${name}"`,
    );
  await at.comes(
    names.map((name) => `${name} 5`),
    names.map((name) => `${name} 5 uploaded`),
  );
  assert.ok(commits < FILES, `${FILES} files took ${commits} transactions`);
});

/** Nothing is kept of names that the log has spoken of, once that is settled: their users think of new ones for ever. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../support/recording-place.ts';

function kept({ parting, jail }: Awaited<ReturnType<typeof recordingPlace>>): string[] {
  return [...parting.schedule.namespaceOf(jail).root.children.keys()];
}

test('of a folder from which a file was moved', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd', 'e'), { recursive: true });
  at.write('d/e/a', 'xxxxx');
  at.told(1, `open "d/e/a" ${WRITE}`, 'close "d/e/a" bytes read 0 written 5');
  renameSync(join(at.files, 'd', 'e', 'a'), join(at.files, 'b'));
  at.told(1, 'rename old "d/e/a" new "b"');
  await at.comesTo(['d/e/a 5'], ['b 5 uploaded']);
  assert.deepEqual(kept(at), []);
});

test('of what should have been removed and was not there', async () => {
  await using at = await recordingPlace();
  at.told(1, 'remove name "d/a"', 'sent status No such file');
  await at.comesTo([], []);
  assert.deepEqual(kept(at), []);
});

test('of what should have been renamed and was not there', async () => {
  await using at = await recordingPlace();
  at.told(1, 'rename old "d/a" new "e/b"', 'sent status No such file');
  await at.comesTo([], []);
  assert.deepEqual(kept(at), []);
});

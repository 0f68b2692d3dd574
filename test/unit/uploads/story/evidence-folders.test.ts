/** Rows of files below renamed folders, and the row of a file whose name a folder takes. */
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

test('a folder takes the name of a cut upload that is removed, and another one at once: no row stays', async () => {
  await using at = await recordingPlace();
  at.write('a', 'xxxxx');
  at.logged(1, `open "a" ${WRITE}`, 'forced close "a" bytes read 0 written 5');
  await at.comesTo([], ['a 5 partial']);
  rmSync(join(at.files, 'a'));
  mkdirSync(join(at.files, 'b'));
  at.logged(2, 'remove name "a"', 'mkdir name "a" mode 0777', 'rename old "a" new "b"');
  await at.comesTo([], []);
});

test('a folder is renamed many times before a look: the rows below it follow', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'd0'));
  at.write('d0/a', 'xxxxx');
  at.logged(1, `open "d0/a" ${WRITE}`, 'close "d0/a" bytes read 0 written 5');
  await at.comesTo(['d0/a 5'], ['d0/a 5 uploaded']);
  for (let i = 0; i < 20; i++) at.logged(1, `rename old "d${i}" new "d${i + 1}"`);
  renameSync(join(at.files, 'd0'), join(at.files, 'd20'));
  await at.comesTo(['d0/a 5'], ['d20/a 5 uploaded']);
});

test('a folder is renamed right after a file in it was opened, by the log before, and a write may have been cut short: partial', async () => {
  await using at = await recordingPlace();
  mkdirSync(join(at.files, 'f'));
  at.write('f/a', 'x'.repeat(19));
  at.logged(2, 'rename old "d" new "f"', 'stat name "f"');
  at.logged(1, `open "d/a" ${WRITE}`, 'sent status Failure', 'close "d/a" bytes read 0 written 0');
  await at.parting.drained();
  at.touch('f/a');
  await at.settles([], ['f/a 19 partial']);
});

for (const [refused, lines, announced] of [
  ['an exclusive open', ['open "d/a" flags WRITE,CREATE,EXCL mode 0644', 'sent status Failure'], ['d/a 9', 'f/a 10']],
  ['a request', ['sent status Failure'], ['f/a 10']],
] as const)
  test(`${refused} is refused, and the file's size is set once its folder has another name: announced with that size`, async () => {
    await using at = await recordingPlace();
    mkdirSync(join(at.files, 'd'));
    at.write('d/a', 'xxxx');
    at.logged(1, `open "d/a" ${WRITE}`, ...lines);
    await at.parting.drained();
    renameSync(join(at.files, 'd'), join(at.files, 'f'));
    at.write('f/a', 'x'.repeat(10));
    at.logged(1, 'close "d/a" bytes read 0 written 9', 'set "d/a" size 10');
    await at.parting.drained();
    at.logged(2, 'rename old "d" new "f"', 'stat name "f"');
    await at.parting.drained();
    at.touch('f/a');
    await at.settles([...announced], ['f/a 10 uploaded']);
  });

/** Close lines whose name was cut: the right files get the right verdict, and many lines share few looks. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Change } from '../../src/uploads/change.ts';
import { CutNames } from '../../src/uploads/cut-names.ts';
import { createUnclear } from '../../src/uploads/unclear.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

test('a cut name is the beginning of one, or one with wording behind it, and the last word about it counts', () => {
  const names = new CutNames<number>();
  const said: [begins: string, what: number][] = [
    ['abc', 1],
    ['ab"c" bytes', 2],
    ['x', 3],
    ['abcd', 4],
    ['x', 5],
    ['q"', 6],
  ];
  for (const [begins, what] of said) names.add(Buffer.from(begins), what);
  const found = ['abc', 'abcx', 'abcdef', 'ab', 'ab"c', 'a', 'xyz', 'q', 'q"r', 'Q'].map((name) =>
    names.of(Buffer.from(name)),
  );
  assert.deepEqual(found, [1, 1, 4, 2, 2, undefined, 5, 6, 6, undefined]);
});

test('hundreds of lines about one folder share a few looks, and each file gets its own verdict', async () => {
  using place = scratch();
  const root = join(place.dir, 'files');
  mkdirSync(join(root, 'in'), { recursive: true });
  const names = Array.from({ length: 400 }, (_, i) => `${String(i).padStart(4, '0')}-${'x'.repeat(200)}`);
  for (const name of names) writeFileSync(join(root, 'in', name), '');
  writeFileSync(join(root, 'in', 'other'), '');
  const emitted: Change[] = [];
  let looks = 0;
  const stop = new AbortController();
  const unclear = createUnclear({
    filesRoot() {
      looks += 1;
      return root;
    },
    queries: { fileAt: async () => undefined },
    isWritten: () => false,
    emit: (changes) => void emitted.push(...changes),
    scan: (id) => assert.fail(id),
    signal: stop.signal,
  });
  for (const [i, name] of names.entries()) {
    unclear.resolve({
      place: { id: 'd', sftp_username: 'u' },
      start: Buffer.from(`/files/in/${name.slice(0, 150)}`),
      forced: i % 2 === 1,
      pid: i,
      at: i,
    });
  }
  await until('every file has its verdict', () => emitted.length >= names.length);
  stop.abort();
  await unclear.close();
  assert.ok(looks < 10, `${looks} looks`);
  const verdicts = new Map(emitted.map((change) => [('path' in change ? change.path : '').toString(), change]));
  assert.deepEqual([emitted.length, verdicts.size], [names.length, names.length]);
  for (const [i, name] of names.entries()) {
    const change = verdicts.get(`in/${name}`);
    assert.deepEqual([change?.kind, change?.at], [i % 2 === 1 ? 'cut-off' : 'closed', i]);
  }
});

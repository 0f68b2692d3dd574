/** /etc/berth/berth.env as systemd reads it. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ignoredLines, settingsIn } from '../../../src/foundation/base/settings-file.ts';
import { scratch } from '../../support/scratch.ts';

test('the last line of a name counts, quotes are removed, comments are not settings', () => {
  const text = '#BERTH_A=0\n; B\nBERTH_A=1\n BERTH_B = "x y" \nBERTH_A=\'2\'\nBERTH_C=\n';
  assert.deepEqual(Object.fromEntries(settingsIn(text)), { BERTH_A: '2', BERTH_B: 'x y', BERTH_C: '' });
});

test('lines without effect are named', () => {
  using place = scratch();
  const file = join(place.dir, 'berth.env');
  assert.deepEqual(ignoredLines(file), []);
  writeFileSync(file, '# x\n\nBERTH_A=1 \\\n2\nexport BERTH_RATE_LIMIT=9\nBERTH-B=1\n');
  assert.deepEqual(ignoredLines(file), [
    `line 5 of ${file} has no effect: write BERTH_RATE_LIMIT=… without "export"`,
    `line 6 of ${file} has no effect: it is not NAME=VALUE`,
  ]);
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { benches } from './benches.ts';
import { longOnly } from '../support/long.ts';
import { table } from './table.ts';

const HERE = fileURLToPath(new URL('../..', import.meta.url));

// Tiny, so that the bench keeps working: the figures of such a run mean nothing, and are not checked. It takes a minute of a core.
void describe('the bench', { ...longOnly, concurrency: 3 }, () => {
  for (const bench of benches) {
    test(`${bench.name} runs`, async () => {
      const figures = await bench.run('tiny', [[HERE]]);
      assert.ok(figures.length > 0);
      for (const figure of figures) assert.ok(Number.isFinite(figure.median), figure.what);
      assert.match(table(figures), /^\| what/);
    });
  }
});

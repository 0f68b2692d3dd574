/** A test file that hangs does not block the run and leaves nothing behind. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { scratch } from '../support/scratch.ts';

const APART = fileURLToPath(new URL('../support/each-file-apart.cjs', import.meta.url));

/** Ends with no test, and keeps its process busy; what it starts holds its standard output. */
const HANGING = `
  const { execFileSync, spawn } = require('node:child_process');
  execFileSync('mount', ['-t', 'tmpfs', 'berth-test', __dirname]);
  spawn('sleep', ['7654321'], { stdio: 'inherit' });
  for (;;);
`;

test('a test file that hangs is killed and named, with what it started and mounted, and the others run', () => {
  using place = scratch();
  const hanging = join(place.dir, 'hanging.test.cjs');
  const other = join(place.dir, 'other.test.cjs');
  writeFileSync(hanging, HANGING);
  writeFileSync(other, `require('node:test').test('the other', () => undefined);`);
  const { NODE_TEST_CONTEXT: _ofThisRun, NODE_V8_COVERAGE: _itsCoverage, ...environment } = process.env;
  const args = ['--require', APART, '--test', '--test-concurrency=1', '--test-reporter=tap', hanging, other];
  const { status, stdout } = spawnSync(process.execPath, args, {
    env: { ...environment, TEST_FILE_SECONDS: '2', TEST_FILE_TIMES: '' },
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(status, 1, stdout);
  assert.match(stdout, /^# .*\/hanging\.test\.cjs did not end within 2 s: killed, with all it had started$/m);
  assert.match(stdout, /^not ok 1 - .*\/hanging\.test\.cjs$/m);
  assert.match(stdout, /^ok 2 - the other$/m);
  assert.doesNotMatch(execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }), /^sleep 7654321$/m);
  assert.ok(!readFileSync('/proc/self/mounts', 'utf8').includes(place.dir), 'a mount is left');
});

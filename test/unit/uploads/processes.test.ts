/** What the kernel says about processes that hold files. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fewPathsHeldBy, isAlive, startTimeOf } from '../../../src/arrivals/uploads/processes.ts';
import { scratch } from '../../support/scratch.ts';

/** A child writes a file. It is killed for each line of input, and its parent does not ask how it ended. */
const PARENT = `
  use IO::Handle; STDOUT->autoflush(1);
  my $child = fork();
  if (!$child) { open(my $file, '>', $ARGV[0]) or die; print "$$\n"; sleep 100; exit }
  <STDIN>; kill 9, $child; sleep 100;
`;

test('a process that was killed cannot be asked what it holds, although it is still in /proc', async () => {
  using place = scratch();
  const files = join(place.dir, 'someone', 'files');
  mkdirSync(files, { recursive: true });
  const parent = spawn('perl', ['-e', PARENT, join(files, 'half')], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    assert.deepEqual(
      fewPathsHeldBy(pid, 'someone')?.map(({ path }) => path),
      ['half'],
    );
    assert.equal(isAlive(pid), true);
    assert.ok(startTimeOf(pid));
    parent.stdin.write('\n');
    while (fewPathsHeldBy(pid, 'someone')?.length === 1) await new Promise(setImmediate);
    assert.equal(fewPathsHeldBy(pid, 'someone'), undefined);
    assert.equal(isAlive(pid), false);
    assert.equal(startTimeOf(pid), undefined);
  } finally {
    parent.kill('SIGKILL');
  }
});

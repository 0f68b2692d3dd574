/** When a file that no session explains counts as an upload: with a clock that is wrong, and with lines that were lost. */
import assert from 'node:assert/strict';
import { lstatSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { SECOND } from '../../src/clock.ts';
import { createLog } from '../../src/log.ts';
import type { Change } from '../../src/uploads/change.ts';
import { createInterpreter } from '../../src/uploads/interpret.ts';
import { readEvent } from '../../src/uploads/log-line.ts';
import { createSettler } from '../../src/uploads/settle.ts';
import { movedClock } from '../support/moved-clock.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

const NAME = Buffer.from('a');
const PLACE = { id: 'd', sftp_username: 'u' };

/** A settler over one folder with the file `a`, whose row is not there yet. */
function settlerOf(dir: string, isOpen: (directoryId: string, path: Buffer) => boolean, hoursAhead = 0) {
  writeFileSync(join(dir, 'a'), 'data');
  const clock = movedClock();
  clock.offset = hoursAhead * 3600 * SECOND;
  const emitted: Change[] = [];
  const settler = createSettler({
    clock,
    log: createLog('silent'),
    filesRoot: () => dir,
    queries: { fileAt: () => Promise.resolve(undefined) },
    isWritten: () => false,
    isOpen,
    sessionOf: () => undefined,
    emit: (changes) => emitted.push(...changes),
  });
  return { settler, emitted, [Symbol.dispose]: () => settler.close() };
}

test('with the clock an hour behind the file’s times, scans without a pause do not put it off for ever', async () => {
  using place = scratch();
  using at = settlerOf(place.dir, () => false, -1);
  const stats = lstatSync(join(place.dir, 'a'));
  await until('it is found', async () => {
    await at.settler.examine(PLACE, NAME, stats);
    await wait(100);
    return at.emitted.length > 0;
  });
  assert.equal(at.emitted[0]?.kind, 'found');
});

/** What the log told, up to an open of `a` whose close is missing. */
function openedAndNoMore(isAlive: boolean) {
  const interpreter = createInterpreter({
    holds: () => false,
    isAlive: () => isAlive,
    writesInode: () => false,
    unclear: () => undefined,
    note: () => undefined,
  });
  for (const text of ['session opened for local user u from [::1]', 'open "a" flags WRITE,CREATE,TRUNCATE mode 0644'])
    interpreter.interpret({ pid: 1, event: readEvent(text) }, 0, 'd');
  return interpreter;
}

test('the line of a close was lost: by the kernel’s word nobody writes the file, so it is found', async () => {
  using place = scratch();
  using at = settlerOf(place.dir, openedAndNoMore(true).isOpen);
  at.settler.suspect(PLACE, NAME);
  await until('it is found', () => at.emitted.length > 0);
});

test('the process died while it wrote: that is told by its end, not by rest', async () => {
  using place = scratch();
  using at = settlerOf(place.dir, openedAndNoMore(false).isOpen);
  at.settler.suspect(PLACE, NAME);
  await wait(5000);
  assert.deepEqual(at.emitted, []);
});

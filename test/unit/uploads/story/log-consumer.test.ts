/** Sessions that end, and handles that are closed, while berth starts and checks what an earlier process has left. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jailFiles } from '../../../../src/arrivals/uploads/file-path.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { fewPathsHeldBy, isAlive, startTimeOf } from '../../../../src/arrivals/uploads/processes.ts';
import { Doubts } from '../../../../src/arrivals/uploads/record/doubts.ts';
import { Agenda } from '../../../../src/arrivals/uploads/story/agenda.ts';
import { Look } from '../../../../src/arrivals/uploads/story/jobs.ts';
import { createLogConsumer } from '../../../../src/arrivals/uploads/story/log-consumer.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { createLog } from '../../../../src/foundation/base/log.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';
import { scratch } from '../../../support/scratch.ts';

const CLOSE = 'close "a" bytes read 0 written 5';

/**
 * A session has opened `a` and written 5 bytes when `serve` was killed, and is live when the next one has read the journal.
 * @param meanwhile what the session's process does while its latest lines are awaited.
 * @param late lines that sshd logs after those that were awaited.
 */
async function checked(meanwhile: string, late: readonly string[]) {
  await using parts = new AsyncDisposableStack();
  const at = parts.use(await recordingPlace());
  const script = `exec 3>"$1"; printf '12345' >&3; echo; read -r _; ${meanwhile}; echo; read -r _`;
  const process = spawn('bash', ['-c', script, 'bash', `${at.files}/a`], { stdio: ['pipe', 'pipe', 'inherit'] });
  parts.defer(() => void process.kill('SIGKILL'));
  await once(process.stdout, 'data');
  const { pid = 0 } = process;
  const clock = systemClock();
  const logConsumer = createLogConsumer({
    log: createLog('silent'),
    clock,
    filesRoot: jailFiles(at.config.jailDir),
    jails: { byUsername: async () => at.jail, byUid: async () => at.jail },
    recorder: at.parting.recorder,
    firstUid: 0,
    async interpreted() {
      await at.parting.drained();
      process.stdin.write('\n');
      await Promise.race([once(process.stdout, 'data'), once(process, 'exit')]);
      return true;
    },
    addressOf: () => undefined,
    isRestoring: () => false,
    live: () => undefined,
    ended: () => undefined,
    doubts: new Doubts({ journal: { at: -Infinity } }),
    compare: () => undefined,
  });
  const say = async (...texts: readonly string[]): Promise<void> => {
    for (const text of texts) {
      const said = { at: clock.now(), pid, event: readEvent(text), address: '', born: startTimeOf(pid) };
      await logConsumer.follow(at.jail, said, false);
    }
  };
  await say('session opened for local user acme from [192.0.2.7]', `open "a" ${WRITE}`);
  await logConsumer.restored(at.jail);
  await at.parting.drained();
  const isOpen = at.parting.recorder.known(at.jail.id)?.fileAt('a')?.hasOpenWriters;
  await say(...late);
  const owned = parts.move();
  return { at, isOpen, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test('a session that ends while its lines are awaited has not died: its upload is complete', async () => {
  await using session = await checked('exit', [CLOSE, 'session closed for local user acme from [192.0.2.7]']);
  assert.equal(session.isOpen, true);
  await session.at.settles(['a 5'], ['a 5 uploaded']);
});

test('a handle that closes while berth waits for its lines is not a lost close: it completes the upload', async () => {
  await using session = await checked('exec 3>&-', [CLOSE]);
  assert.equal(session.isOpen, true);
  await session.at.settles(['a 5'], ['a 5 uploaded']);
});

// What the kernel says about processes that hold files.

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

// The states of pending work: what may follow what.

test('work that is taken or over is not taken again', () => {
  const look = new Look('a', 0, false);
  look.become('taken');
  assert.throws(() => look.become('taken'), /taken cannot become taken/);
  look.become('over');
  assert.throws(() => look.become('ready'), /over cannot become ready/);
});

test('a look that is requested while it is under way comes again once it is over', () => {
  const agenda = new Agenda();
  agenda.look('a', 5);
  const [look] = agenda.takeLooks(1, 5);
  assert.ok(look);
  agenda.look('a', 9, true);
  assert.deepEqual(agenda.takeLooks(1, 9), []);
  agenda.settled(look, 7);
  assert.deepEqual(
    agenda.takeLooks(1, 7).map(({ path, due }) => [path, due]),
    [['a', 7]],
  );
});

test('a look that is requested for later, too, is repeated then', () => {
  const agenda = new Agenda();
  agenda.look('a', 9);
  agenda.look('a', 5);
  const [look] = agenda.takeLooks(1, 5);
  assert.ok(look);
  agenda.settled(look, 6);
  assert.equal(agenda.nextLook(), 9);
});

test('work counts how often it has waited', () => {
  const agenda = new Agenda();
  const task = agenda.add({ kind: 'remove', path: 'a', by: undefined, at: 1 });
  for (let time = 0; time < 3; time += 1) {
    assert.deepEqual(agenda.takeTasks(1), [task]);
    task.become('waiting');
    assert.deepEqual(agenda.takeTasks(1), []);
    task.become('ready');
  }
  assert.equal(task.waits, 3);
});

test('an operation that compares a path does what earlier hints have asked for, and nothing else', () => {
  const agenda = new Agenda();
  const planned = (path: string, ...hintedAt: number[]): void => {
    for (const at of hintedAt) agenda.look(path, 9, false, at);
    agenda.compared(path, 3);
  };
  planned('hinted before', 1, 2);
  planned('hinted again', 1, 3);
  planned('wanted, too', 1, Infinity);
  assert.deepEqual(
    agenda.takeLooks(9, 9).map(({ path }) => path),
    ['hinted again', 'wanted, too'],
  );
});

test('a look that only hints have asked for waits longer while the log is behind', () => {
  const agenda = new Agenda();
  agenda.look('hinted', 5, false, 3);
  agenda.look('wanted', 5);
  const paths = (now: number, isBehind: boolean): string[] =>
    agenda.takeLooks(9, now, isBehind).map(({ path }) => path);
  assert.deepEqual(paths(5, true), ['wanted']);
  assert.deepEqual([agenda.nextLook(), agenda.nextLook(true)], [5, 10_005]);
  assert.deepEqual([paths(10_004, true), paths(10_005, true)], [[], ['hinted']]);
});

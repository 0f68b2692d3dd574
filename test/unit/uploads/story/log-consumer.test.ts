/** Sessions that end, and handles that are closed, while berth starts and checks what an earlier process has left. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { createLog } from '../../../../src/foundation/base/log.ts';
import { systemClock } from '../../../../src/foundation/base/clock.ts';
import { jailFiles } from '../../../../src/arrivals/uploads/file-path.ts';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { startTimeOf } from '../../../../src/arrivals/uploads/processes.ts';
import { Doubts } from '../../../../src/arrivals/uploads/record/doubts.ts';
import { createLogConsumer } from '../../../../src/arrivals/uploads/story/log-consumer.ts';
import { recordingPlace, WRITE } from '../../../support/recording-place.ts';

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

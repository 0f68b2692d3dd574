/** Uploads that a program checks, which `scripts/lib/check` runs as a user of its own. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkerOf } from '../../src/arrivals/checks/checker.ts';
import type { CheckedFile } from '../../src/arrivals/checks/exchange.ts';
import { webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { checkPlace } from './check-place.ts';

const CHECK = fileURLToPath(new URL('../../scripts/lib/check', import.meta.url));

/** The place of a program with these lines. */
function programPlace(...lines: string[]) {
  const first = scratch();
  const program = `${first.dir}-check`;
  first[Symbol.dispose]();
  writeFileSync(program, `#!/bin/sh\n${lines.join('\n')}\n`);
  chmodSync(program, 0o755);
  const place = scratch({ BERTH_CHECK: `exec:${program}`, BERTH_LOG_LEVEL: 'silent' });
  return {
    place,
    program,
    [Symbol.dispose]() {
      place[Symbol.dispose]();
      rmSync(program, { force: true });
    },
  };
}

async function listener({ environment, config }: Scratch, more: Record<string, string> = {}) {
  const socket = join(config.runtimeDir, 'check');
  const env = { PATH: process.env['PATH'] ?? '', ...environment, ...more };
  const child = spawn('sh', ['-c', 'mkdir -p "${1%/*}" && exec "$0" --listen "$1"', CHECK, socket], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const checker = checkerOf({ kind: 'exec', socket });
  // The socket's name appears a moment before somebody listens.
  const isListening = () =>
    checker.hello(5).then(
      () => true,
      () => false,
    );
  await until('it listens', isListening);
  return {
    checker,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

function fileOf(content: string | Buffer, more: Partial<CheckedFile> = {}): CheckedFile {
  const bytes = Buffer.from(content);
  const about = {
    directoryId: 'd1',
    username: 'acme-x7k2m9qa',
    path: Buffer.from('in/report.csv'),
    size: bytes.length,
  };
  return {
    ...about,
    content: (async function* () {
      yield bytes;
    })(),
    ...more,
  };
}

/** Empty when there is no such process. */
function cmdlineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trim();
  } catch {
    return '';
  }
}

const { signal } = new AbortController();

test('exit 0 passes, exit 1 rejects with what the program printed, of an upload by SFTP', async () => {
  using of = programPlace('grep -q bad && { echo "$UPLOAD_NAME of $UPLOAD_USERNAME is bad"; exit 1; }', 'exit 0');
  await using _listener = await listener(of.place);
  await using at = await checkPlace(of.place);
  const { berth, directory } = at;
  await at.put('fine', 'fine');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'fine');
  await at.put('evil', 'a bad file');
  await at.untilHeld('it is rejected', ([first]) => first?.state === 'rejected');
  assert.equal((await at.held())[0]?.reason, `evil of ${directory.username} is bad`);
  assert.deepEqual(readdirSync(directory.files), ['fine']);
  assert.equal(berth.receiver.requests.length, 1);
  const { stdout } = await at.command('doctor');
  assert.match(stdout, new RegExp(`ok\\s+checks\\s+${of.program}: 0 files wait for a check, 1 in the quarantine`));
});

test('the program has the file, its name byte by byte, a user of its own, and nothing of berth’s settings', async () => {
  using of = programPlace(
    'bytes=$(wc -c)',
    'printf "%s|" "$bytes" "$UPLOAD_DIRECTORY" "$UPLOAD_USERNAME" "$UPLOAD_SIZE" "$(id -u)" "$(id -G)"',
    'printf %s "$UPLOAD_NAME" | od -An -tx1 | tr -d " \\n"',
    'printf "|%s|" "$(env | grep -c BERTH)"',
    'cat /proc/$PPID/environ 2>&1 | grep -c SECRET',
    'exit 1',
  );
  await using running = await listener(of.place, { BERTH_OIDC_CLIENT_SECRET: 'SECRET' });
  const path = Buffer.from('a b\n\xff"$(id)\x01', 'latin1');
  const large = Buffer.alloc(3_000_000, 'x');
  const verdict = await running.checker.check(fileOf(large, { path }), 20, signal);
  assert.ok(!verdict.isPassed);
  const parts = verdict.reason.split('|');
  const user = '1879048189';
  assert.deepEqual(parts, ['3000000', 'd1', 'acme-x7k2m9qa', '3000000', user, user, path.toString('hex'), '0', '0']);
});

test('a program that does not end is killed with all that it has started', async () => {
  const ownGroup = `perl -e 'setpgrp; exec "sleep", "77"' &`;
  using of = programPlace('sleep 77 &', ownGroup, 'sleep 77');
  await using running = await listener(of.place);
  await assert.rejects(running.checker.check(fileOf('x'), 1, signal), /no end within 1 s/);
  await until('nothing is left', async () => !readdirSync('/proc').some((pid) => cmdlineOf(pid) === 'sleep 77'));
});

test('what a program leaves behind delays no verdict: not with its input, and not by printing forever', async () => {
  const keepsInput = 'exec 3<&0; setsid sleep 20 <&3 >/dev/null 2>&1 3<&- &';
  for (const line of [keepsInput, 'yes & yes &']) {
    using of = programPlace(line, 'exit 1');
    await using running = await listener(of.place);
    const began = performance.now();
    const { isPassed } = await running.checker.check(fileOf('x'), 15, signal);
    assert.equal(isPassed, false, line);
    assert.ok(performance.now() - began < 10_000, line);
  }
});

for (const [what, lines, words] of [
  ['another status', ['echo no database', 'exit 2'], /the checker: exit 2: no database/],
  ['its death', ['kill -9 $$'], /killed by signal 9/],
  ['a flood of output', ['yes | head -c 3000000', 'exit 3'], /exit 3: y/],
] as const) {
  test(`${what} is an error of the checker, not a verdict`, async () => {
    using of = programPlace(...lines);
    await using running = await listener(of.place);
    await assert.rejects(running.checker.check(fileOf(Buffer.alloc(1_000_000)), 20, signal), words);
  });
}

test('a program that does not read the file still decides', async () => {
  using of = programPlace('exit 0');
  await using running = await listener(of.place);
  const verdict = await running.checker.check(fileOf(Buffer.alloc(5_000_000)), 20, signal);
  assert.deepEqual(verdict, { isPassed: true });
});

test('many at once are answered, each its own', async () => {
  using of = programPlace('read -r text', 'sleep 0.1', 'echo "$text"', 'exit 1');
  await using running = await listener(of.place);
  const asked = Array.from({ length: 30 }, (_, index) => `file ${index}`);
  const verdicts = await Promise.all(asked.map((text) => running.checker.check(fileOf(`${text}\n`), 60, signal)));
  assert.deepEqual(
    verdicts.map((verdict) => (verdict.isPassed ? '' : verdict.reason)),
    asked,
  );
});

test('hello reports a program that cannot be run, and doctor says what to do', async () => {
  using of = programPlace('exit 0');
  await using at = await checkPlace(of.place);
  const doctor = async (): Promise<string> => (await at.command('doctor')).stdout;
  assert.match(await doctor(), /fail\s+checks\s+the checker cannot be reached.*enable --now berth-check\.socket/);
  await using running = await listener(of.place);
  assert.equal(await running.checker.hello(5), of.program);
  // Only root may execute the file, and the checker runs as another user.
  chmodSync(of.program, 0o700);
  await assert.rejects(running.checker.hello(5), /check: Permission denied/);
  assert.match(await doctor(), /fail\s+checks\s+.*check: Permission denied.*chmod 755/);
  rmSync(of.program);
  await assert.rejects(running.checker.hello(5), /check: No such file or directory/);
  assert.match(await doctor(), /fail\s+checks\s+.*No such file or directory.*put the program there/);
  await assert.rejects(running.checker.check(fileOf('x'), 5, signal), /exit 127/);
});

test('a connection that says nothing, or does not end, is ended', async () => {
  using of = programPlace('exit 0');
  await using _running = await listener(of.place);
  const path = join(of.place.config.runtimeDir, 'check');
  const ends = ['', 'check 61 d1 acme 1 1\n'].map(async (question) => {
    const socket = connect({ path, allowHalfOpen: true });
    socket.write(question);
    await once(socket.resume(), 'end', { signal: AbortSignal.timeout(60_000) });
    socket.destroy();
  });
  await Promise.all(ends);
});

/**
 * Current releases of clients that write, set times and rename: rclone (a Go module) and sshj (from Maven), built where
 * their toolchains are. Debian's own releases are older and do less.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startBerth, webhookOf } from '../support/berth.ts';
import { longOnly } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const FOREIGN = fileURLToPath(new URL('../foreign/', import.meta.url));
const FILES = 20;
/** Longer than a stable file takes to be found. */
const PAUSE_MS = 4000;
/** A new machine downloads and compiles, in ms. */
const TIMEOUT = 900_000;

const run = promisify(execFile);

/** Runs a step that needs a toolchain and a registry; skips the test when either is missing. */
async function reach(t: TestContext, command: string, args: readonly string[], cwd: string): Promise<boolean> {
  try {
    await run(command, args, { cwd });
    return true;
  } catch (error) {
    t.skip(`${command} ${args[0]}: ${error instanceof Error ? error.message.slice(0, 200) : ''}`);
    return false;
  }
}

/** A client that uploads all files of a folder: its program, and arguments before port, user and folder. */
type Client = readonly [program: string, ...args: string[]];

/** Twice: new files, then other bytes under the same names. */
async function uploadTwice(place: Scratch, [program, ...args]: Client): Promise<void> {
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const folder = join(place.dir, 'outgoing');
  mkdirSync(folder);
  const names = Array.from({ length: FILES }, (_, i) => `file-${String(i).padStart(2, '0')}.csv`);
  for (const more of [1, 101]) {
    names.forEach((name, i) => writeFileSync(join(folder, name), 'x'.repeat(i + more)));
    const before = berth.receiver.requests.length;
    await run(program, [...args, String(directory.login.port), directory.username, folder], {
      env: { ...process.env, PASSWORD: directory.password },
    });
    await until('all are announced', () => berth.receiver.requests.length >= before + FILES);
    await wait(PAUSE_MS);
    const expected = names.map((name, i) => `${name} ${i + more}`);
    const announced = berth.receiver.requests.slice(before).map(webhookOf);
    assert.deepEqual(announced.map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted(), expected);
    const listed = await berth.uploads(directory);
    assert.deepEqual(listed.map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted(), expected);
  }
}

test('rclone copy: one webhook and one row for each file', { ...longOnly, timeout: TIMEOUT }, async (t) => {
  using place = scratch();
  const source = join(FOREIGN, 'rclone');
  if (!(await reach(t, 'go', ['list', '-options', '.'], source))) return;
  const program = join(place.dir, 'rclone-copy');
  await run('go', ['build', '-o', program, '.'], { cwd: source });
  await uploadTwice(place, [program]);
});

test('sshj: one webhook and one row for each file', { ...longOnly, timeout: TIMEOUT }, async (t) => {
  using place = scratch();
  const build = join(place.dir, 'sshj');
  await cp(join(FOREIGN, 'sshj'), build, { recursive: true });
  const goals = ['package', 'dependency:copy-dependencies', '-DoutputDirectory=target/lib'];
  if (!(await reach(t, 'mvn', ['-q', '-B', ...goals], build))) return;
  await uploadTwice(place, ['java', '-cp', `${build}/target/classes:${build}/target/lib/*`, 'Put']);
});

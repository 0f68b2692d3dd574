/** Every build has a version of its own, and dpkg sorts them; what it makes of the sources does the same. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { TIMEOUT_SECONDS } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url));

/** A checkout of its own with that version. */
function checkout(version: string) {
  const dir = mkdtempSync(join(tmpdir(), 'berth-version-'));
  mkdirSync(join(dir, 'scripts/lib'), { recursive: true });
  copyFileSync(join(PROJECT, 'scripts/lib/version'), join(dir, 'scripts/lib/version'));
  const say = (text: string): void => writeFileSync(join(dir, 'package.json'), `{\n  "version": "${text}"\n}\n`);
  say(version);
  const git = (...args: string[]): void => {
    const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main'];
    execFileSync('git', [...identity, '-C', dir, ...args], { stdio: 'ignore' });
  };
  return {
    say,
    git,
    commit(at: string) {
      git('add', '-A');
      execFileSync(
        'git',
        ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-C', dir, 'commit', '-qm', at, '--allow-empty'],
        { env: { ...process.env, GIT_COMMITTER_DATE: at, GIT_AUTHOR_DATE: at } },
      );
    },
    version: () => execFileSync(join(dir, 'scripts/lib/version'), { encoding: 'utf8' }).trim(),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}

const isOlder = (one: string, other: string): boolean =>
  spawnSync('dpkg', ['--compare-versions', one, 'lt', other]).status === 0;

test('a release has the version of package.json; other commits and changed files add to it; dpkg sorts them', () => {
  using place = checkout('0.2.0');
  assert.equal(place.version(), '0.2.0', 'an unpacked release');
  place.git('init', '-q');
  place.commit('2026-11-23T12:00:00Z');
  place.git('tag', 'v0.2.0');
  assert.equal(place.version(), '0.2.0');
  place.commit('2026-11-23T13:00:00Z');
  const [first] = [place.version()];
  assert.match(first, /^0\.2\.0\+20261123130000\.[0-9a-f]{7,}$/);
  place.commit('2026-11-24T09:00:00+01:00');
  const second = place.version();
  assert.match(second, /^0\.2\.0\+20261124080000\./);
  place.say('0.3.0');
  assert.match(place.version(), /^0\.3\.0\+20261124080000\.[0-9a-f]+\.changed$/);
  const inOrder = ['0.2.0', first, second, '0.3.0~rc.1', '0.3.0', place.version()];
  for (const [index, version] of inOrder.slice(1).entries()) assert.ok(isOlder(inOrder[index] ?? '', version), version);
});

test('the changes name the version of package.json first', () => {
  const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')) as { version: string };
  assert.equal(/^## (\S+)$/m.exec(readFileSync(join(PROJECT, 'CHANGELOG.md'), 'utf8'))?.[1], version);
});

// What `scripts/lib/compile.ts` makes of the sources does the same: commands, worker threads, stack traces.

test('the compiled program has the same commands, a thread that starts, and stack traces that lead to the sources', async () => {
  using place = scratch();
  const folder = join(place.dir, 'staged');
  mkdirSync(folder);
  for (const part of ['package.json', 'src']) cpSync(join(PROJECT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(process.execPath, [join(PROJECT, 'scripts/lib/compile.ts'), folder]);

  const help = (main: string): string => execFileSync(process.execPath, [main, '--help'], { encoding: 'utf8' });
  assert.equal(help(join(folder, 'program/main.js')), help(join(PROJECT, 'src/main.ts')));

  const { jailDir } = place.config;
  const file = join(folder, 'try.mjs');
  writeFileSync(file, PROGRAM);
  const { stdout, stderr } = spawnSync(process.execPath, ['--enable-source-maps', file, jailDir], {
    encoding: 'utf8',
    timeout: TIMEOUT_SECONDS * 1000,
  });
  assert.match(stdout, /^refused\n.*\/src\/foundation\/base\/config\.ts:\d+:\d+/m, stderr);
});

/** Opens the transfer log in its thread, and fails in a function of the sources. */
const PROGRAM = `
  const [jailDir] = process.argv.slice(2);
  const { openTransferLog } = await import('./program/arrivals/uploads/log/transfer-log.js');
  const { createLog } = await import('./program/foundation/base/log.js');
  const log = createLog('silent');
  const folders = { corner: jailDir + '/.berth', journal: jailDir + '/journal', jailDir };
  await (await openTransferLog({ ...folders, inherited: [], log })).close();
  const { readConfig } = await import('./program/foundation/base/config.js');
  try { readConfig({ BERTH_API_PORT: 'x' }); } catch (error) { console.log('refused\\n' + error.stack.split('\\n').slice(1, 3)); }`;

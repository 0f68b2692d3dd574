/** Folders of root's, as berth.service sees them: a user of its own with capabilities that access(2) does not ask. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { prepareFolders, pathsOf } from '../../../src/machine/sftp/paths.ts';
import { scratch } from '../../support/scratch.ts';

const SRC = fileURLToPath(new URL('../../../src/', import.meta.url));

/** What berth.service has for files: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_KILL. */
const CAPABILITIES = ['chown', 'dac_override', 'fowner', 'kill'];
const AS_SERVICE = [
  '--reuid=nobody',
  '--regid=nogroup',
  '--clear-groups',
  ...['--inh-caps', '--ambient-caps'].map((set) => `${set}=${CAPABILITIES.map((name) => `+${name}`).join()}`),
];

/** Runs that module's text as the user of a service, and returns what it prints. */
function asService(script: string): string {
  const args = [...AS_SERVICE, process.execPath, '--input-type=module', '--eval', script];
  const { status, stdout, stderr } = spawnSync('setpriv', args, { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout.trim();
}

test('under the unit, a berth with other state is refused the jails, and does not become their owner', () => {
  using place = scratch();
  const paths = pathsOf(place.config);
  prepareFolders(paths);
  const other = { ...place.config, stateDir: `${place.config.stateDir}-other` };
  const owner = readFileSync(paths.owner, 'utf8');
  const said = asService(`
import { preflight } from '${SRC}machine/sftp/preflight.ts';
try { preflight(${JSON.stringify(other)}); console.log('accepted'); } catch (error) { console.log(error.message); }`);
  assert.match(said, /belongs to the berth whose BERTH_STATE_DIR is /);
  assert.equal(readFileSync(paths.owner, 'utf8'), owner);
});

test('under the unit, users who were deleted before stay deleted in a folder that root has made', () => {
  using place = scratch();
  const folder = join(place.config.stateDir, 'deleted-users');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, 'gone'), '');
  const said = asService(`
import { tombstonesIn } from '${SRC}operating/nodes/tombstones.ts';
const users = tombstonesIn(${JSON.stringify(place.config.stateDir)});
console.log(users.has('gone'), users.has('other'));`);
  assert.equal(said, 'true false');
});

test('nothing that the service runs asks access(2)', () => {
  // Root runs these.
  const ofRoot = ['operating/doctor/', 'cli/', 'operating/backup/', 'doors/listen/'];
  const wrong = globSync('**/*.{ts,tsx}', { cwd: SRC })
    .filter((file) => !ofRoot.some((folder) => file.startsWith(folder)))
    .filter((file) => /\b(existsSync|accessSync)\b(?!`)/.test(readFileSync(join(SRC, file), 'utf8')));
  assert.deepEqual(wrong, []);
});

/** Opening files below a hostile folder as root: no component that is a link is followed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  enterEntry,
  enterFolder,
  entriesOf,
  lstatBeneath,
  openFolder,
  statusBeneath,
  unlinkBeneath,
} from '../../../src/foundation/base/beneath.ts';
import { pathsOf, prepareFolders } from '../../../src/machine/sftp/paths.ts';
import { scratch } from '../../support/scratch.ts';

test('a link as any component leads nowhere', async () => {
  using place = scratch();
  const root = join(place.dir, 'root');
  const outside = join(place.dir, 'outside');
  mkdirSync(join(root, 'folder'), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), 'kept');
  symlinkSync(outside, join(root, 'link'));
  symlinkSync(outside, join(root, 'folder', 'link'));

  assert.equal(lstatBeneath(root, Buffer.from('link/secret')), undefined);
  assert.equal(lstatBeneath(root, Buffer.from('folder/link/secret')), undefined);
  assert.equal(unlinkBeneath(root, Buffer.from('link/secret')), false);
  assert.throws(() => openFolder(root, Buffer.from('link')), { code: 'ENOTDIR' });
  assert.equal(await statusBeneath(root, Buffer.from('link/secret')), undefined);
  assert.equal(await statusBeneath(root, Buffer.from('folder/link/secret')), undefined);
  await assert.rejects(enterFolder(root, Buffer.from('link')), { code: 'ENOTDIR' });
  await using folder = await enterFolder(root, Buffer.from('folder'));
  await assert.rejects(enterEntry(folder, Buffer.from('link')), { code: 'ENOTDIR' });
  assert.equal(lstatBeneath(root, Buffer.from('link'))?.isSymbolicLink(), true);
  assert.equal(unlinkBeneath(root, Buffer.from('link')), true, 'the link itself goes');
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'kept');
});

test('a root that is a link is not entered', async () => {
  using place = scratch();
  mkdirSync(join(place.dir, 'real'));
  writeFileSync(join(place.dir, 'real', 'file'), '');
  symlinkSync(join(place.dir, 'real'), join(place.dir, 'root'));
  assert.equal(lstatBeneath(join(place.dir, 'root'), Buffer.from('file')), undefined);
  assert.equal(await statusBeneath(join(place.dir, 'root'), Buffer.from('file')), undefined);
});

test('an open folder stays the same one when its path is swapped, and names may be any bytes', async () => {
  using place = scratch();
  const name = Buffer.from([0x66, 0xff, 0x22, 0x0a]);
  writeFileSync(Buffer.concat([Buffer.from(`${place.dir}/`), name]), 'x');
  await using folder = await enterFolder(place.dir);
  const entries: string[][] = [];
  for await (const entry of entriesOf(folder)) entries.push([entry.name.toString('latin1'), entry.kind]);
  assert.deepEqual(entries, [[name.toString('latin1'), 'file']]);
  assert.equal(lstatBeneath(place.dir, name)?.size, 1);
  assert.equal((await statusBeneath(place.dir, name))?.size, 1);
});

// Folders of root's, as berth.service sees them: a user of its own with capabilities that access(2) does not ask.

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
import { tombstonesIn } from '${SRC}operating/nodes/leftovers.ts';
const users = tombstonesIn(${JSON.stringify(place.config.stateDir)});
console.log(users.has('gone'), users.has('other'));`);
  assert.equal(said, 'true false');
});

test('nothing that the service runs asks access(2)', () => {
  // Root runs these.
  const ofRoot = ['operating/doctor/', 'cli/', 'operating/backup/', 'interfaces/listen/'];
  const wrong = globSync('**/*.{ts,tsx}', { cwd: SRC })
    .filter((file) => !ofRoot.some((folder) => file.startsWith(folder)))
    .filter((file) => /\b(existsSync|accessSync)\b(?!`)/.test(readFileSync(join(SRC, file), 'utf8')));
  assert.deepEqual(wrong, []);
});

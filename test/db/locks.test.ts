/** Nobody but root can lock what berth locks: a process without rights that holds a shared lock would keep every new serve from starting. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lockInstance } from '../../src/foundation/db/instance-lock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { lockRotation } from '../../src/machine/sftp/host-key-rotation.ts';
import { backUp } from '../../src/operating/backup/backup.ts';
import { restore } from '../../src/operating/backup/restore.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { scratch } from '../support/scratch.ts';

/** Takes a shared lock on the file, as `nobody`, until it is ended. */
const HOLD = `
import fcntl, os, sys
os.setgid(65534); os.setuid(65534)
try:
  with open(sys.argv[1]) as file:
    fcntl.lockf(file, fcntl.LOCK_SH)
    print('locked', flush=True)
    sys.stdin.read()
except PermissionError:
  print('refused', flush=True)
`;

/** @returns what it could do. Ends with the test's scope. */
async function heldByNobody(file: string): Promise<Disposable & { readonly outcome: string }> {
  const holder = spawn('python3', ['-c', HOLD, file], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [outcome] = (await once(holder.stdout, 'data')) as [Buffer];
  return { outcome: outcome.toString().trim(), [Symbol.dispose]: () => void holder.kill('SIGKILL') };
}

const modeOf = (file: string): number => statSync(file).mode & 0o777;

for (const [name, lock] of Object.entries({
  'serve.lock': (folder: string) => lockInstance(join(folder, 'serve.lock')),
  'the lock of the host keys': (folder: string) => lockRotation(join(folder, 'hostkeys')),
}))
  test(`${name} cannot be locked by a process without rights, and one from an earlier version is corrected`, async () => {
    using place = scratch();
    const folder = join(place.dir, 'locked');
    mkdirSync(folder, { mode: 0o755 });
    const before = process.umask(0o022);
    try {
      lock(folder)[Symbol.dispose]();
      const [file = ''] = readdirSync(folder).map((each) => join(folder, each));
      assert.equal(modeOf(file), 0o600);
      using holder = await heldByNobody(file);
      assert.equal(holder.outcome, 'refused');
      chmodSync(file, 0o644);
      using first = lock(folder);
      assert.equal(modeOf(file), 0o600);
      // Its second attempt must not end the lock that this process has.
      assert.throws(() => lock(folder));
      assert.ok(first);
    } finally {
      process.umask(before);
    }
  });

test('nothing that a restore makes can be opened by others, except public keys and the certificate', async () => {
  using place = scratch();
  const { config, dir } = place;
  mkdirSync(config.stateDir, { recursive: true });
  await (await openDatabase(config.database)).close();
  const stop = new AbortController().signal;
  const settings = join(dir, 'none');
  const { file } = await backUp(config, { clock: systemClock(), file: join(dir, 'backup.tar'), settings, stop });
  using other = scratch();
  const before = process.umask(0o022);
  try {
    await restore(other.config, {
      file,
      settings: { file: settings, what: 'leave', environment: {} },
      force: true,
      stop,
    });
  } finally {
    process.umask(before);
  }
  const files = readdirSync(other.config.stateDir, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  );
  assert.ok(files.some(({ name }) => name === 'serve.lock'));
  const open = files.filter(({ parentPath, name }) => (modeOf(join(parentPath, name)) & 0o077) !== 0);
  assert.deepEqual(
    open.map(({ name }) => name).filter((name) => !/\.pub$|^cert\.pem$/.test(name)),
    [],
  );
});

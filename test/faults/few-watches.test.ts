/** No inotify watches left: one clear line in the log, and scans find what the watcher cannot see. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { webhookOf } from '../support/berth.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { faultyPlace } from './faulty-place.ts';

const CHILD = fileURLToPath(new URL('./few-watches-child.ts', import.meta.url));
const WATCHES = 0;
/** Starts the program when the namespace has its users: only then is it root in there. */
const WAITING = 'read -r go && exec "$@"';
/** Every user of the machine, under the same number. */
const ALL_USERS = '0 0 4294967295';

// Inside a plain chroot the kernel makes no user namespace (user_namespaces(7)).
const refused = spawnSync('unshare', ['--user', 'true']).status === 0 ? false : 'this machine makes no user namespaces';

test(
  'no inotify watches left: a line says so, and a file that no session explains is still found',
  { skip: refused },
  async () => {
    using place = scratch();
    await using berth = await faultyPlace(place);
    await berth.serve().kill('SIGTERM');

    const child = spawn('unshare', ['--user', 'sh', '-c', WAITING, 'sh', process.execPath, CHILD, String(WATCHES)], {
      env: { ...nodeEnvironment, ...berth.environment },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const ended = once(child, 'exit');
    await using _child = {
      async [Symbol.asyncDispose]() {
        child.kill('SIGTERM');
        await ended;
      },
    };
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    // The namespace is given its users from outside.
    await once(child, 'spawn');
    for (const map of ['uid_map', 'gid_map'])
      await retried(() => writeFileSync(`/proc/${child.pid}/${map}`, ALL_USERS));
    child.stdin.write('go\n');
    await Promise.race([once(child.stdout, 'data'), ended.then(() => assert.fail(said))]);

    const files = join(berth.config.jailDir, berth.directory.login.username, 'files');
    writeFileSync(join(files, 'copied-by-hand'), 'data');
    const arrived = await berth.hook.next().catch(() => assert.fail(`nothing arrived: ${said}`));
    assert.equal(webhookOf(arrived).filename, 'copied-by-hand');
    const lines = said.split('\n').filter((line) => line.includes('inotify'));
    assert.equal(lines.length, 1, said);
    assert.match(
      lines[0] ?? '',
      /no inotify watches left: raise fs\.inotify\.max_user_watches .* scans find what changes/,
    );
  },
);

/** Until the process is in its namespace, its map cannot be written. */
async function retried(write: () => void): Promise<void> {
  let failure: unknown;
  await until('the map is written', () => {
    try {
      write();
      return true;
    } catch (error) {
      failure = error;
      return false;
    }
  }).catch(() => {
    throw failure;
  });
}

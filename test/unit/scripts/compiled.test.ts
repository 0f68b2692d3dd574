/** What `scripts/lib/compile.ts` makes of the sources does the same: commands, worker threads, stack traces. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { TIMEOUT_SECONDS } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url));

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

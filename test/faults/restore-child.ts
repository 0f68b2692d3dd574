/**
 * The process that `crash-restore.test.ts` lets die: a restore by the real modules on a real disk. Says `finished` at the end.
 *
 *   node restore-child.ts ARCHIVE STEP           dies after that many steps
 *   node restore-child.ts ARCHIVE each FOLDER    keeps the state after each step in that folder, and lives on
 */
import { dieAfter, keepEach } from './dying.ts';
import { restore } from '../../src/operating/backup/restore.ts';
import { readConfig } from '../../src/foundation/base/config.ts';

const [file = '', step = '', folder = ''] = process.argv.slice(2);
const config = readConfig(process.env);
if (step === 'each') keepEach(config.stateDir, folder);
else dieAfter(Number(step));
await restore(config, {
  file,
  settings: { file: `${config.stateDir}/berth.env`, what: 'leave', environment: {} },
  force: true,
  stop: new AbortController().signal,
});
dieAfter(Infinity);
process.stdout.write('finished');

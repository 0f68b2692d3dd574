/**
 * The process that `crash-restore.test.ts` lets die: a restore by the real modules on a real disk.
 *
 *   node restore-child.ts STEP ARCHIVE      STEP: die after that many steps; says `finished` when there are fewer
 */
import { dieAfter } from './dying.ts';
import { restore } from '../../src/operating/backup/restore.ts';
import { readConfig } from '../../src/foundation/base/config.ts';

const [step = '', file = ''] = process.argv.slice(2);
const config = readConfig(process.env);
dieAfter(Number(step));
await restore(config, {
  file,
  settings: { file: `${config.stateDir}/berth.env`, what: 'leave', environment: {} },
  force: true,
  stop: new AbortController().signal,
});
dieAfter(Infinity);
process.stdout.write('finished');

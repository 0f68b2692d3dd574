/** Uploads with a spool, in a process that can be killed (test/support/spooling.ts). */
import { readConfig } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startSpooling } from '../support/spooling.ts';

const config = readConfig(process.env);
await startSpooling(config, await openDatabase(config.database));
process.stdout.write('ready\n');

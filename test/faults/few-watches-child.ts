/**
 * `berth serve` in a user namespace of its own with few inotify watches, and with scans that follow each other quickly.
 *
 *   node few-watches-child.ts WATCHES
 */
import { writeFileSync } from 'node:fs';
import { readConfig } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';

// As root of this namespace; the machine's own limit stays as it is (sysctl in Documentation/admin-guide/sysctl/user.rst).
writeFileSync('/proc/sys/user/max_inotify_watches', process.argv[2] ?? '');
const config = readConfig(process.env);
const service = await startService(config, { log: createLog(config.logLevel), roundPause: 500 });
await service.covered;
process.stdout.write('covered\n');
process.once('SIGTERM', () => void service.close().then(() => process.exit(0)));

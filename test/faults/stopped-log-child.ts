/** The transfer log alone, in a process that can be stopped: `node stopped-log-child.ts FOLDER`. Prints what it hears. */
import { openTransferLog } from '../../src/uploads/log/transfer-log.ts';

const log = await openTransferLog(process.argv[2] ?? '', (lines) => {
  for (const { text } of lines) process.stdout.write(`${text}\n`);
});
process.stdout.write(`${log.currentSocket()}\n`);

/**
 * The transfer log alone, in a process that can be stopped: `node log-child-main.ts FOLDER`. It has one jail, `acme`. Prints a
 * socket, then what the jail's journal has.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLog } from '../../src/foundation/base/log.ts';
import { readRecord } from '../../src/arrivals/uploads/log/journal-record.ts';
import { openTransferLog } from '../../src/arrivals/uploads/log/transfer-log.ts';

const folder = process.argv[2] ?? '';
const [jailDir, corner, journal] = [join(folder, 'jails'), join(folder, 'corner'), join(folder, 'journal')];
mkdirSync(join(jailDir, 'acme'), { recursive: true });
const log = await openTransferLog({ jailDir, corner, journal, inherited: [], log: createLog('silent') });
let printed = 0;
log.follow({
  news(news) {
    if (news.length === 0) return;
    const lines = readFileSync(join(journal, 'acme'), 'utf8').split('\n').slice(0, -1);
    for (const record of lines.slice(printed).map(readRecord))
      if (record && !record.isGap) process.stdout.write(`${JSON.stringify(record.event)}\n`);
    printed = lines.length;
  },
  mark: () => undefined,
  compacted: () => undefined,
});
process.stdout.write(`${log.socketsFor('acme')[0]}\n`);

/** The journal's reader: it and the writer agree on what is in a file, whatever the disk has lost. */
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { JournalFiles } from '../../../../src/arrivals/uploads/log/journal-files.ts';
import { JournalReader } from '../../../../src/arrivals/uploads/log/journal-reader.ts';
import type { JournalRecord } from '../../../../src/arrivals/uploads/log/journal-record.ts';
import { until } from '../../../support/poll.ts';
import { scratch } from '../../../support/scratch.ts';

const JAIL = { id: 'd', sftp_username: 'acme' };

function record(at: number, heldBytes = 0): JournalRecord {
  const held = heldBytes > 0 ? [{ path: 'x'.repeat(heldBytes), inode: 1 }] : undefined;
  return { at, pid: 7, event: { kind: 'status', text: 'Failure' }, address: '192.0.2.7', held };
}

/** What a process follows of the journal that an earlier one has left, and how often something was missing. */
async function followed(folder: string): Promise<{ times: number[]; lost: number }> {
  const files = new JournalFiles({ folder, failed: assert.fail });
  const times: number[] = [];
  let lost = 0;
  const over = new AbortController();
  const reader = new JournalReader(
    {
      folder,
      signal: over.signal,
      transferLog: { compact: () => undefined, isFull: () => false },
      consumer: {
        jailOf: async () => JAIL,
        restore: () => undefined,
        follow: (_jail, { at }) => void times.push(at),
        restored: async () => undefined,
        lost: () => void (lost += 1),
        isBusy: () => false,
        isDecided: () => true,
        known: () => undefined,
        failed: assert.fail,
      },
    },
    () => undefined,
  );
  const [end] = files.ends();
  assert.ok(end);
  reader.news([end]);
  await until('all is read', async () => !reader.isRestoring('acme'));
  over.abort();
  await reader.close();
  return { times, lost };
}

for (const bytes of [90_000, 135_000, 2_000_000])
  test(`a record of ${bytes} bytes is read, and what comes after it, before and after a restart`, async () => {
    using place = scratch();
    const folder = join(place.dir, 'journal');
    const files = new JournalFiles({ folder, failed: assert.fail });
    files.append('acme', [record(1), record(2, bytes), record(3)]);
    assert.deepEqual(await followed(folder), { times: [1, 2, 3], lost: 0 });
    new JournalFiles({ folder, failed: assert.fail }).append('acme', [record(4)]);
    assert.deepEqual(await followed(folder), { times: [1, 2, 3, 4], lost: 0 });
  });

test('the disk has lost many megabytes of a journal: what comes after them is read', async () => {
  using place = scratch();
  const folder = join(place.dir, 'journal');
  new JournalFiles({ folder, failed: assert.fail }).append('acme', [record(1)]);
  appendFileSync(join(folder, 'acme'), Buffer.concat([Buffer.alloc(9_000_000), Buffer.from('\n')]));
  new JournalFiles({ folder, failed: assert.fail }).append('acme', [record(2)]);
  assert.deepEqual(await followed(folder), { times: [1, 2], lost: 1 });
});

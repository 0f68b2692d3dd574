/** After a crash, lines of the log are read again that were recorded before. Nothing is announced twice, and uploads keep their ids. */
import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { afterLatecomers, startBerth } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { FXP, type RawSftp, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';

/** What a client does. Each is one upload. */
const CASES: Readonly<Record<string, (sftp: RawSftp) => Promise<unknown>>> = {
  async 'a file is renamed'(sftp) {
    await sftp.put('t', 'one');
    await sftp.replace('t', 'final');
  },
  async 'a folder is renamed'(sftp) {
    await sftp.request(FXP.MKDIR, 'in', 0);
    await sftp.put('in/a', 'one');
    await sftp.rename('in', 'out');
  },
  async 'a folder gets a final name'(sftp) {
    await sftp.request(FXP.MKDIR, 'batch.tmp', 0);
    await sftp.put('batch.tmp/a', 'one');
    await sftp.rename('batch.tmp', 'batch');
  },
  async 'a folder gets a final name, then its file is renamed'(sftp) {
    await sftp.request(FXP.MKDIR, 'batch.tmp', 0);
    await sftp.put('batch.tmp/a', 'one');
    await sftp.rename('batch.tmp', 'batch');
    await sftp.rename('batch/a', 'z');
  },
};

void describe('read again', { concurrency: true }, () => {
  for (const seconds of ['0', '1'])
    for (const [what, act] of Object.entries(CASES))
      test(`${what}, BERTH_SETTLE_SECONDS=${seconds}: one upload`, async () => {
        using place = scratch({ BERTH_SETTLE_SECONDS: seconds });
        await using berth = await startBerth(place);
        const directory = await berth.directory();
        await act(await rawSftp(await berth.connect(directory)));
        const journal = join(place.config.stateDir, 'journal');
        // Before it is compacted.
        await wait(300);
        cpSync(journal, `${journal}.before`, { recursive: true });
        await until('it is announced', () => berth.receiver.requests.length > 0);
        await until('it is listed', async () => (await berth.uploads(directory)).length === 1);
        await afterLatecomers(berth);
        const before = await berth.uploads(directory);
        await berth.stop();
        rmSync(journal, { recursive: true });
        cpSync(`${journal}.before`, journal, { recursive: true });
        await berth.start();
        await afterLatecomers(berth);
        await afterLatecomers(berth);
        assert.equal(berth.receiver.requests.length, 1);
        assert.deepEqual(await berth.uploads(directory), before);
      });
});

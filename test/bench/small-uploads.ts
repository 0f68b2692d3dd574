/** 5,000 files of 1 KiB in one session of OpenSSH's client. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/poll.ts';
import { bothSshds, type Side } from './beside-sshd.ts';
import { processorTime } from './child.ts';
import { type Bench, inTurns, median, rateFigure, short } from './harness.ts';

export const smallUploads: Bench = {
  name: 'small-uploads',
  async run(size) {
    await using both = await bothSshds();
    const [rounds, count] = size === 'tiny' ? [1, 20] : [7, 5000];
    const source = join(both.place.dir, 'source');
    mkdirSync(source);
    for (let i = 0; i < count; i += 1) writeFileSync(join(source, `file-${i}.bin`), Buffer.alloc(1024, i));
    let round = 0;
    let uploaded = 0;
    const costs: number[] = [];

    const run = (side: Side) => async (): Promise<number> => {
      round += 1;
      const folder = `round-${round}`;
      const before = processorTime(both.berth.serve.pid);
      const seconds = await both.timed(side, [`mkdir /files/${folder}`, `put ${source}/* /files/${folder}/`]);
      if (side === both.ours) {
        uploaded += count;
        await until('every upload is recorded', async () => (await recorded()) >= uploaded, 60);
        costs.push(((processorTime(both.berth.serve.pid) - before) * 1e6) / count);
      }
      return count / seconds;
    };
    const recorded = async (): Promise<number> => {
      const { json } = await both.berth.api.send('GET', '/directories?limit=1');
      return ((json as { data: { storage_bytes: number }[] }).data[0]?.storage_bytes ?? 0) / 1024;
    };
    const rates = await inTurns(rounds, run(both.ours), run(both.theirs));
    const what = `${count.toLocaleString('en')} uploads of 1 KiB in one session, beside a plain sshd without a log`;
    const figure = rateFigure(what, 0.9, rates, 'files/s');
    return [{ ...figure, detail: `${figure.detail}; ${short(median(costs))} µs of berth's processor a file` }];
  },
};

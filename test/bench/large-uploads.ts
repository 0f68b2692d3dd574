/** 1 GiB by OpenSSH's client, in one stream and in four, in MB/s. */
import { execFileSync } from 'node:child_process';
import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { bothSshds, type Side } from './beside-sshd.ts';
import { type Bench, type Figure, inTurns, rateFigure } from './harness.ts';

export const largeUploads: Bench = {
  name: 'large-uploads',
  async run(size) {
    await using both = await bothSshds();
    const [rounds, total] = size === 'tiny' ? [1, 2 ** 20] : [5, 2 ** 30];
    const source = join(both.place.dir, 'source');
    execFileSync('dd', ['if=/dev/zero', `of=${source}`, 'bs=1M', `count=${total / 2 ** 20}`, 'status=none']);
    const figures: Figure[] = [];
    for (const streams of [1, 4]) {
      truncateSync(source, total / streams);
      const run = (side: Side) => async (): Promise<number> => {
        const began = performance.now();
        await Promise.all(
          Array.from({ length: streams }, (_, stream) => both.timed(side, [`put ${source} /files/large-${stream}`])),
        );
        const seconds = (performance.now() - began) / 1000;
        for (let stream = 0; stream < streams; stream += 1) rmSync(join(side.files, `large-${stream}`));
        return total / 1e6 / seconds;
      };
      const rates = await inTurns(rounds, run(both.ours), run(both.theirs));
      const what = `upload of 1 GiB in ${streams === 1 ? 'one stream' : `${streams} streams`}, beside a plain sshd`;
      figures.push(rateFigure(what, 0.98, rates, 'MB/s'));
    }
    return figures;
  },
};

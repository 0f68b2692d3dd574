/** 1 GiB by OpenSSH's client, in one stream and in four, beside a plain sshd. */
import { execFileSync } from 'node:child_process';
import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { besidePlain, rateFigures, runSftp } from './beside-plain.ts';
import type { Bench, Figure } from './harness.ts';

export const largeUploads: Bench = {
  name: 'large-uploads',
  async run(size, trees) {
    await using sides = await besidePlain(trees);
    const [rounds, total] = size === 'tiny' ? [1, 2 ** 20] : [5, 2 ** 30];
    const source = join(sides.place.dir, 'source');
    execFileSync('dd', ['if=/dev/zero', `of=${source}`, 'bs=1M', `count=${total / 2 ** 20}`, 'status=none']);
    const figures: Figure[] = [];
    for (const streams of [1, 4]) {
      truncateSync(source, total / streams);
      const what = `upload of 1 GiB in ${streams === 1 ? 'one stream' : 'four streams'}, beside a plain sshd`;
      const measured = await rateFigures(what, 'MB/s', 0.95, trees, sides.all, rounds, async (side) => {
        const names = Array.from({ length: streams }, (_, stream) => `large-${stream}`);
        const began = performance.now();
        await Promise.all(names.map((name) => runSftp(sides, side, [`put ${source} /files/${name}`])));
        const seconds = (performance.now() - began) / 1000;
        for (const name of names) rmSync(join(side.files, name));
        return total / 1e6 / seconds;
      });
      figures.push(...measured);
    }
    return figures;
  },
};

/**
 * From the close of a handle to the webhook, one upload at a time, while another account's customer sends thousands of small files
 * in four sessions: beside the same on the same berth without them.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type Berth, startBerths } from './berths.ts';
import { uploader } from './announce.ts';
import { type Bench, figure, figures, inTurns, ofTree, percentile, short } from './harness.ts';

const SESSIONS = 4;

export const neighbours: Bench = {
  name: 'neighbours',
  async run(size, trees) {
    const [rounds, each, alone] = size === 'tiny' ? [1, 3, 3] : [5, 2000, 100];
    await using berths = await startBerths(trees);
    using place = scratch();
    const source = join(place.dir, 'source');
    mkdirSync(source);
    for (let i = 0; i < each; i += 1) writeFileSync(join(source, `file-${i}.bin`), Buffer.alloc(1024, i));
    await using parts = new AsyncDisposableStack();
    const sides = [];
    for (const berth of berths.all) {
      const { waits } = parts.use(await uploader(berth, berth.neighbour));
      sides.push({ berth, waits });
    }
    if (size === 'full') await inTurns(1, sides, ({ waits }) => waits(alone));
    const results = await inTurns(rounds, sides, async ({ berth, waits }) => {
      const calm = await waits(alone);
      const flood = startFlood(berth, place, each);
      const beside: number[] = [];
      while (!flood.isOver()) beside.push(...(await waits(1)));
      await flood.done;
      return {
        calm: percentile(calm, 0.5),
        beside: percentile(beside, 0.5),
        worst: Math.max(...beside),
        last: flood.last(),
      };
    });
    const total = (SESSIONS * each).toLocaleString('en');
    const what = `close → webhook, beside another account's ${total} uploads: p50, over that alone`;
    const ratios = trees.map((tree, index) => {
      const own = results[index] ?? [];
      const calm = percentile(
        own.map((one) => one.calm),
        0.5,
      );
      const beside = percentile(
        own.map((one) => one.beside),
        0.5,
      );
      const detail = `${short(calm)} → ${short(beside)} ms`;
      return ofTree(
        figure(
          what,
          '×',
          { most: 5 },
          own.map((one) => one.beside / one.calm),
          detail,
        ),
        tree,
        trees,
      );
    });
    const of = (value: 'worst' | 'last'): number[][] => results.map((all) => all.map((one) => one[value] / 1000));
    return [
      ...ratios,
      ...figures('… the longest', 's', { most: 1 }, trees, of('worst')),
      ...figures("… from the other account's first login to its last webhook", 's', {}, trees, of('last')),
    ];
  },
};

/** Sends the files of `source` in each of the sessions. It is over with the last webhook. */
function startFlood(berth: Berth, place: Scratch, each: number) {
  let isOver = false;
  let last = Number.NaN;
  const run = async (): Promise<void> => {
    await using hook = await receiver({ eachOnce: true });
    const { sftp_username: username, sftp_password: password } = await berth.directory({ webhook_url: hook.url });
    const began = performance.now();
    const sessions = Array.from({ length: SESSIONS }, async (_, number) => {
      const commands = [`mkdir /files/${number}`, `put ${place.dir}/source/* /files/${number}/`];
      const { code, output } = await sftp(place.dir, { port: berth.config.sftp.port, username, password }, commands);
      if (code !== 0) throw new Error(`sftp failed: ${output}`);
    });
    await Promise.all(sessions);
    await until('every upload is announced', () => hook.requests.length >= SESSIONS * each, 120);
    last = (hook.requests.at(-1)?.at ?? Number.NaN) - began;
  };
  const done = run().finally(() => (isOver = true));
  done.catch(() => undefined);
  return { done, isOver: () => isOver, last: () => last };
}

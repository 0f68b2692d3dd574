/** 4,000 files of 1 KiB in four sessions of OpenSSH's client, each with its webhook; and the memory before and after. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type Berth, memoryOf, processorSeconds, startBerths } from './berths.ts';
import { type Bench, figures, inTurns } from './harness.ts';

const SESSIONS = 4;
/** How long a berth takes to become idle after a start or after work, in ms. */
const REST = 3000;
/** Until a berth that is idle has given back what a burst has needed, in ms. */
const GIVEN_BACK = 12_000;

export const smallUploads: Bench = {
  name: 'small-uploads',
  async run(size, trees) {
    const [rounds, each] = size === 'tiny' ? [1, 3] : [3, 1000];
    await using berths = await startBerths(trees);
    using place = scratch();
    const source = join(place.dir, 'source');
    mkdirSync(source);
    for (let i = 0; i < each; i += 1) writeFileSync(join(source, `file-${i}.bin`), Buffer.alloc(1024, i));
    if (size === 'full') await wait(REST);
    const idle = berths.all.map(({ pid }) => [memoryOf(pid)]);
    const results = await inTurns(rounds, berths.all, (berth) => upload(berth, place, each));
    if (size === 'full') await wait(GIVEN_BACK);
    const after = berths.all.map(({ pid }) => [memoryOf(pid)]);
    const total = (SESSIONS * each).toLocaleString('en');
    const all = (SESSIONS * each * rounds).toLocaleString('en');
    const of = (value: 'rate' | 'last' | 'processor'): number[][] =>
      results.map((values) => values.map((one) => one[value]));
    return [
      ...figures(`${total} uploads of 1 KiB in four sessions`, '/s', { least: 2300 }, trees, of('rate')),
      ...figures('… from the first open to the last webhook', 's', { most: 2.5 }, trees, of('last')),
      ...figures('… processor time of serve per upload with its webhook', 'ms', { most: 1 }, trees, of('processor')),
      ...figures('memory (PSS) of serve, idle', 'MiB', { most: 110 }, trees, idle),
      ...figures(`… after ${all} uploads with webhooks`, 'MiB', { most: 130 }, trees, after),
    ];
  },
};

async function upload({ config, directory, pid }: Berth, place: Scratch, each: number) {
  await using hook = await receiver();
  const { sftp_username: username, sftp_password: password } = await directory({ webhook_url: hook.url });
  const login = { port: config.sftp.port, username, password };
  const before = processorSeconds(pid);
  const sessions = Array.from({ length: SESSIONS }, async (_, number) => {
    const [began, ended] = [join(place.dir, `began-${number}`), join(place.dir, `ended-${number}`)];
    const { code, output } = await sftp(place.dir, login, [
      `mkdir /files/${number}`,
      `!date +%s%3N > ${began}`,
      `put ${place.dir}/source/* /files/${number}/`,
      `!date +%s%3N > ${ended}`,
    ]);
    if (code !== 0) throw new Error(`sftp failed: ${output}`);
    return { began: Number(readFileSync(began, 'utf8')), ended: Number(readFileSync(ended, 'utf8')) };
  });
  const times = await Promise.all(sessions);
  const count = SESSIONS * each;
  const all = until('every upload is announced', () => hook.requests.length >= count, 60);
  await all.catch((error: unknown) => {
    throw new Error(`of ${count} uploads ${hook.requests.length} were announced`, { cause: error });
  });
  const began = Math.min(...times.map((time) => time.began));
  const seconds = (Math.max(...times.map((time) => time.ended)) - began) / 1000;
  const last = (performance.timeOrigin + (hook.requests.at(-1)?.at ?? Number.NaN) - began) / 1000;
  const processor = ((processorSeconds(pid) - before) * 1000) / count;
  return { rate: count / seconds, last, processor };
}

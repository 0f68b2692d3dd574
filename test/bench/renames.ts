/**
 * What a file costs `serve` that a client sends under a temporary name, by one session: beside one that is sent under its own name.
 * WinSCP and rclone rename by default, and a resumed upload is appended to first.
 */
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { connect } from '../support/sftp-client.ts';
import { type SftpSession, sftpSession } from '../support/sftp-session.ts';
import { type Berth, processorSeconds, startBerths } from './berths.ts';
import { type Bench, type Figure, figure, figures, inTurns, median, ofTree, short } from './harness.ts';

const HALF = Buffer.alloc(512, 'x');

/** How a file is sent, and at most how many times the processor time of one that is only put. */
const WAYS: readonly {
  readonly what: string;
  readonly most?: number;
  send(session: SftpSession, name: string): Promise<void>;
}[] = [
  { what: 'put', send: (session, name) => session.put(name, HALF) },
  {
    what: 'put and renamed',
    most: 1.5,
    async send(session, name) {
      await session.put(`${name}.filepart`, HALF);
      await session.rename(`${name}.filepart`, name);
    },
  },
  {
    what: 'put, appended to and renamed',
    most: 2.2,
    async send(session, name) {
      await session.put(`${name}.filepart`, HALF);
      const handle = await session.open(`${name}.filepart`, 'r+');
      await session.write(handle, HALF, HALF.length);
      await session.close(handle);
      await session.rename(`${name}.filepart`, name);
    },
  },
];

export const renames: Bench = {
  name: 'renames',
  async run(size, trees) {
    const [rounds, files] = size === 'tiny' ? [1, 3] : [5, 600];
    await using berths = await startBerths(trees);
    // The code is warm.
    if (size === 'full') await inTurns(1, berths.all, (berth) => sendAll(berth, files));
    const results = await inTurns(rounds, berths.all, (berth) => sendAll(berth, files));
    return WAYS.flatMap(({ what, most }, way) => {
      const lags = results.map((all) => all.map((ways) => ways[way]?.lag ?? Number.NaN));
      const costs = trees.map((tree, index): Figure => {
        const own = (results[index] ?? []).map((ways) => ways[way]?.processor ?? Number.NaN);
        const put = (results[index] ?? []).map((ways) => ways[0]?.processor ?? Number.NaN);
        if (most === undefined) return ofTree(figure(`${what}: processor time of serve`, 'ms', {}, own), tree, trees);
        const ratios = own.map((value, round) => value / (put[round] ?? Number.NaN));
        const detail = `${short(median(own))} of ${short(median(put))} ms`;
        return ofTree(figure(`${what}: processor time of serve`, '×', { most }, ratios, detail), tree, trees);
      });
      return [
        ...costs,
        ...figures(`${what}: from the last request to the last of ${files} webhooks`, 's', { most: 1 }, trees, lags),
      ];
    });
  },
};

interface Cost {
  /** Milliseconds of `serve` for each file. */
  readonly processor: number;
  /** Seconds from the client's last request to the last webhook. */
  readonly lag: number;
}

async function sendAll(berth: Berth, files: number): Promise<Cost[]> {
  const costs: Cost[] = [];
  for (const { send } of WAYS) costs.push(await sendFiles(berth, files, send));
  return costs;
}

async function sendFiles(
  { config, directory, pid }: Berth,
  files: number,
  send: (session: SftpSession, name: string) => Promise<void>,
): Promise<Cost> {
  await using hook = await receiver({ eachOnce: true });
  const { sftp_username: username, sftp_password: password } = await directory({ webhook_url: hook.url });
  await using connection = await connect({ port: config.sftp.port, username, password });
  const session = await sftpSession(connection);
  const before = processorSeconds(pid);
  for (let i = 0; i < files; i += 1) await send(session, `file-${i}`);
  const sent = performance.now();
  await until('every file is announced', () => hook.requests.length >= files, 60);
  const lag = Math.max(0, (hook.requests.at(-1)?.at ?? Number.NaN) - sent) / 1000;
  return { processor: ((processorSeconds(pid) - before) * 1000) / files, lag };
}

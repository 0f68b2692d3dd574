/**
 * What a customer leaves behind whose connections break off with many files open, below long folders and with long names, which sshd's
 * log cuts off: the processor time that `serve` then takes, how long its health check waits, and another account's webhooks meanwhile.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { connect } from '../support/sftp-client.ts';
import { uploader } from './announce.ts';
import { type Berth, processorSeconds, startBerths } from './berths.ts';
import { type Bench, figures, inTurns, percentile } from './harness.ts';

const SESSIONS = 3;
/** Open at a time in each session. */
const HANDLES = 100;
/** With the folders, longer than a name in sshd's log can be. */
const FOLDERS = [`a-${'f'.repeat(200)}`, `b-${'f'.repeat(200)}`];

export const brokenOff: Bench = {
  name: 'broken-off',
  async run(size, trees) {
    const [rounds, opens, seconds] = size === 'tiny' ? [1, 5, 1] : [3, 7000, 60];
    await using berths = await startBerths(trees);
    await using parts = new AsyncDisposableStack();
    const sides = [];
    for (const berth of berths.all) {
      const { waits } = parts.use(await uploader(berth, berth.neighbour));
      sides.push({ berth, waits });
    }
    const results = await inTurns(rounds, sides, async ({ berth, waits }) => {
      await breakOff(berth, opens);
      const [before, end] = [processorSeconds(berth.pid), performance.now() + seconds * 1000];
      const webhooks: number[] = [];
      const health: number[] = [];
      const asking = (async () => {
        for (; performance.now() < end; await wait(100)) {
          const began = performance.now();
          await berth.api.send('GET', '//healthz');
          health.push(performance.now() - began);
        }
      })();
      while (performance.now() < end) webhooks.push(...(await waits(1)));
      await asking;
      return {
        processor: processorSeconds(berth.pid) - before,
        health: Math.max(...health),
        webhook: percentile(webhooks, 0.5),
        longest: Math.max(...webhooks) / 1000,
      };
    });
    const of = (value: 'processor' | 'health' | 'webhook' | 'longest'): number[][] =>
      results.map((all) => all.map((one) => one[value]));
    const total = (SESSIONS * opens).toLocaleString('en');
    return [
      ...figures(
        `processor time of serve in the ${seconds} s after ${total} opens broke off, beside uploads of another account`,
        's',
        {},
        trees,
        of('processor'),
      ),
      ...figures('… the longest wait of /healthz', 'ms', { most: 1000 }, trees, of('health')),
      ...figures("… another account's webhook: p50", 'ms', {}, trees, of('webhook')),
      ...figures('… the longest', 's', { most: 1 }, trees, of('longest')),
    ];
  },
};

/** Each session has its last files open when its connection breaks off. */
async function breakOff({ config, directory }: Berth, opens: number): Promise<void> {
  const { sftp_username: username, sftp_password: password } = await directory();
  const sessions = Array.from({ length: SESSIONS }, async (_, number) => {
    await using connection = await connect({ port: config.sftp.port, username, password });
    const sftp = await rawSftp(connection);
    let folder = '/files';
    for (const name of [`session-${number}`, ...FOLDERS]) {
      folder += `/${name}`;
      await sftp.request(FXP.MKDIR, folder, NO_ATTRIBUTES);
    }
    const open: Buffer[] = [];
    for (let i = 0; i < opens; i += 1) {
      const handle = await sftp.open(`${folder}/${String(i).padStart(200, 'n')}`, CREATE_ANEW);
      if (!handle) throw new Error('an open was refused');
      open.push(handle);
      if (open.length > HANDLES) await sftp.request(FXP.CLOSE, open.shift() ?? handle);
    }
    connection.client.destroy();
  });
  await Promise.all(sessions);
}

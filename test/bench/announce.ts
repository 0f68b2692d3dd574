/** From the close of a handle to the webhook's arrival, one upload at a time, as the client and the receiver see it. */
import { setTimeout as wait } from 'node:timers/promises';
import { receiver } from '../support/receiver.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { type Berth, startBerths } from './berths.ts';
import { type Bench, figures, inTurns, percentile } from './harness.ts';

/** Between uploads, so that berth is idle again, in ms. */
const PAUSE = 20;
const CONTENT = Buffer.alloc(1024, 'x');

export const announce: Bench = {
  name: 'announce',
  async run(size, trees) {
    const [rounds, count] = size === 'tiny' ? [1, 3] : [7, 150];
    await using berths = await startBerths(trees);
    await using parts = new AsyncDisposableStack();
    const uploaders = [];
    for (const berth of berths.all) uploaders.push(parts.use(await uploader(berth, berth.directory)));
    // The code is warm.
    if (size === 'full') await inTurns(2, uploaders, (upload) => upload.waits(count));
    const waits = await inTurns(rounds, uploaders, (upload) => upload.waits(count));
    const share = (part: number): number[][] => waits.map((rows) => rows.map((values) => percentile(values, part)));
    return [
      ...figures('close → webhook at the receiver, one at a time: p50', 'ms', { most: 2 }, trees, share(0.5)),
      ...figures('… p99', 'ms', { most: 8 }, trees, share(0.99)),
    ];
  },
};

interface Uploader extends AsyncDisposable {
  /** Milliseconds from each close to its webhook. */
  waits(count: number): Promise<number[]>;
}

export async function uploader({ config }: Berth, directory: Berth['directory']): Promise<Uploader> {
  await using parts = new AsyncDisposableStack();
  const hook = parts.use(await receiver());
  const { sftp_username: username, sftp_password: password } = await directory({ webhook_url: hook.url });
  const session = await sftpSession(parts.use(await connect({ port: config.sftp.port, username, password })));
  let number = 0;
  const owned = parts.move();
  return {
    async waits(count) {
      const waits: number[] = [];
      for (let i = 0; i < count; i += 1) {
        number += 1;
        const handle = await session.open(`file-${number}`, 'w');
        await session.write(handle, CONTENT);
        const closed = performance.now();
        const [{ at }] = await Promise.all([hook.next(), session.close(handle)]);
        waits.push(at - closed);
        await wait(PAUSE);
      }
      return waits;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

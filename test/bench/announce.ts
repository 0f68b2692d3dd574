/** From the close of a handle to the webhook's arrival, as the client and the receiver see it. */
import { setTimeout as wait } from 'node:timers/promises';
import { until } from '../support/poll.ts';
import { type Received, type Receiver, receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { type SftpSession, sftpSession } from '../support/sftp-session.ts';
import { type Bench, boundFigure, percentile, short, type Size } from './harness.ts';
import { serveBerth } from './served.ts';

/** Between uploads when berth is to be idle, in ms. */
const IDLE = 20;
const CONTENT = Buffer.alloc(1024, 'x');

export const announceIdle: Bench = {
  name: 'announce-idle',
  async run(size) {
    const waits = await announced(size, 1, size === 'tiny' ? 3 : 100, undefined);
    const detail = `${waits.length} uploads, the slowest ${short(Math.max(...waits))} ms`;
    return [
      boundFigure('close → request at the receiver, idle: p50', 5, [percentile(waits, 0.5)], 'ms', detail),
      boundFigure('… p99', 20, [percentile(waits, 0.99)], 'ms'),
    ];
  },
};

export const announceBusy: Bench = {
  name: 'announce-busy',
  async run(size) {
    const [clients, each, perSecond] = size === 'tiny' ? [2, 3, 20] : [8, 250, 200];
    const waits = await announced(size, clients, each, perSecond);
    const detail = `${waits.length} uploads from ${clients} clients, all announced; p50 ${short(percentile(waits, 0.5))} ms`;
    const what = 'close → request at 200 uploads/s from 8 clients: p99';
    return [boundFigure(what, 100, [percentile(waits, 0.99)], 'ms', detail)];
  },
};

/** Milliseconds from each close to its webhook. Without a rate, each upload waits for the webhook of the one before. */
async function announced(size: Size, clients: number, each: number, rate: number | undefined): Promise<number[]> {
  using place = scratch();
  await using berth = await serveBerth(place, { sftp: true });
  await using hook = await receiver();
  await using parts = new AsyncDisposableStack();
  const sessions: SftpSession[] = [];
  for (let client = 0; client < clients; client += 1) {
    const { sftp_username: username, sftp_password: password } = await berth.directory(hook.url);
    const connection = parts.use(await connect({ port: berth.config.sftp.port, username, password }));
    sessions.push(await sftpSession(connection));
  }
  const closed = new Map<string, number>();
  const warmUp = size === 'tiny' ? 0 : 5;
  await Promise.all(
    sessions.map(async (session, client) => {
      const began = performance.now();
      for (let i = 0; i < each + warmUp; i += 1) {
        // A client that is late already goes on at once.
        if (rate !== undefined) await wait(Math.max(0, began + (i * 1000 * clients) / rate - performance.now()));
        const name = `client-${client}-file-${i}`;
        const handle = await session.open(name, 'w');
        await session.write(handle, CONTENT);
        if (i >= warmUp) closed.set(name, performance.now());
        await session.close(handle);
        if (rate !== undefined) continue;
        await until(`${name} is announced`, () => hook.requests.length > i);
        await wait(IDLE); // so that berth is idle again
      }
    }),
  );
  // Everything arrives: the backlog is back at nothing.
  await until('every upload is announced', () => hook.requests.length >= clients * (each + warmUp), 60);
  return waitsOf(hook, closed);
}

function waitsOf(hook: Receiver, closed: ReadonlyMap<string, number>): number[] {
  const name = (request: Received): string => (JSON.parse(request.body.toString()) as { filename: string }).filename;
  return hook.requests.flatMap((request) => {
    const at = closed.get(name(request));
    return at === undefined ? [] : [request.at - at];
  });
}

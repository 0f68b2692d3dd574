/** A connection to a test's PostgreSQL that can be cut or frozen, like a pulled cable or a frozen machine. */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { SOCKET } from '../support/postgres.ts';

/** What libpq and its kind call a server's socket. */
const NAME = '.s.PGSQL.5432';

export interface Gateway extends Disposable {
  /** The same database by this way. */
  throughIt(url: string): string;
  /** Ends all connections and takes no more. */
  cut(): void;
  /** Does so when a connection of such a name is made (pg_stat_activity's `application_name`). */
  cutAt(name: string): void;
  /** Ends the next connection whose transaction has such a text, when the server has committed it: the answer is lost. */
  loseCommitOf(text: string): void;
  /** Passes nothing on, and says nothing. */
  freeze(): void;
  /** As at first. Connections that were frozen stay so. */
  repair(): Promise<void>;
}

export async function gateway(dir: string): Promise<Gateway> {
  const socket = join(dir, NAME);
  const server = join(process.env[SOCKET] ?? '', NAME);
  const open = new Set<Socket>();
  let isFrozen = false;
  let fatal: string | undefined;
  let losing: string | undefined;
  const listener = createServer((near) => {
    open.add(near);
    near.on('close', () => open.delete(near)).on('error', () => undefined);
    if (isFrozen) return;
    near.once('data', (chunk: Buffer) => {
      if (fatal !== undefined && chunk.includes(fatal)) cut();
    });
    const far = connect(server);
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.on('close', () => far.destroy());
    let isOfIt = false;
    near.on('data', (chunk: Buffer) => {
      isOfIt ||= losing !== undefined && chunk.includes(losing);
      if (!isOfIt || !chunk.includes('commit\0')) return;
      losing = undefined;
      far
        .unpipe(near)
        .once('data', () => near.destroy())
        .resume();
    });
    near.pipe(far);
    far.pipe(near);
  });
  const listen = async (): Promise<void> => {
    if (listener.listening) return;
    rmSync(socket, { force: true });
    listener.listen(socket);
    await once(listener, 'listening');
  };
  const cut = (): void => {
    listener.close();
    for (const each of open) each.destroy();
  };
  await listen();
  return {
    throughIt: (url) => url.replace(/host=.*/, `host=${dir}`),
    cut,
    cutAt: (name) => (fatal = name),
    loseCommitOf: (text) => (losing = text),
    freeze() {
      isFrozen = true;
      for (const each of open) each.unpipe().pause();
    },
    async repair() {
      isFrozen = false;
      fatal = undefined;
      await listen();
    },
    [Symbol.dispose]: cut,
  };
}

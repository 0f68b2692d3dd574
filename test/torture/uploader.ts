/**
 * A client that uploads files of every kind, reconnects after each interruption, and remembers what it has finished.
 */
import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type Connection, connect, type Credentials } from '../support/sftp-client.ts';
import { sftpSession, type SftpSession } from '../support/sftp-session.ts';

const MIB = 1024 * 1024;
const CHUNK = 32_768;
const DATA = Buffer.alloc(CHUNK, 'berth torture ');

export interface Finished {
  /** Sizes of the versions that were finished, oldest first. */
  readonly sizes: number[];
  /** Sizes of all that were begun: sshd may have finished one and died before it could say so. */
  readonly begun: number[];
}

/** Uploads `count` files named after `name`; `finished` grows as they are done. */
export async function upload(
  credentials: Credentials,
  { name, count, pause }: { name: string; count: number; pause: number },
  finished: Map<string, Finished>,
): Promise<void> {
  let connection: Connection | undefined;
  let session: SftpSession | undefined;
  for (let index = 0; index < count; index++) {
    for (let isDone = false; !isDone;) {
      try {
        connection ??= await connect(credentials);
        session ??= await Promise.race([start(connection, name), cutOff(connection)]);
        // Requests of a connection that has died are never answered.
        await Promise.race([uploadOne(session, `${name}/${index}`, index, finished), cutOff(connection)]);
        isDone = true;
      } catch {
        // Cut off, or sshd is away: the file starts over.
        connection?.drop();
        connection = undefined;
        session = undefined;
        await wait(200);
      }
    }
    await wait(randomInt(2 * pause + 1));
  }
  await connection?.[Symbol.asyncDispose]();
}

async function cutOff(connection: Connection): Promise<never> {
  await connection.closed;
  throw new Error('the connection was cut');
}

async function start(connection: Connection, folder: string): Promise<SftpSession> {
  connection.client.setNoDelay(true);
  const session = await sftpSession(connection);
  await session.mkdir(folder).catch(() => undefined);
  await session.mkdir(`${folder}/sub`).catch(() => undefined);
  return session;
}

/** Four kinds in turn: plain, renamed from a temporary name, overwritten, in a sub-folder. */
async function uploadOne(
  session: SftpSession,
  base: string,
  index: number,
  finished: Map<string, Finished>,
): Promise<void> {
  const kind = index % 4;
  const name = kind === 3 ? base.replace('/', '/sub/') : base;
  const versions = kind === 2 ? 2 : 1;
  for (let version = 0; version < versions; version++) {
    // Versions differ in size.
    let size = randomSize();
    const file = finished.get(name) ?? { sizes: [], begun: [] };
    finished.set(name, file);
    while (file.begun.includes(size)) size += 1;
    file.begun.push(size);
    await put(session, kind === 1 ? `${name}.filepart` : name, size);
    if (kind === 1) await session.replace(`${name}.filepart`, name);
    file.sizes.push(size);
  }
}

async function put(session: SftpSession, name: string, size: number): Promise<void> {
  const handle = await session.open(name, 'w');
  const writes: Promise<void>[] = [];
  for (let at = 0; at < size; at += CHUNK) {
    writes.push(session.write(handle, DATA.subarray(0, Math.min(CHUNK, size - at)), at));
    if (writes.length === 16) await Promise.all(writes.splice(0));
  }
  await Promise.all(writes);
  await session.close(handle);
}

/** 0 B to 4 MiB, mostly small. */
function randomSize(): number {
  const [few, some, many] = [10_000, 500_000, 4 * MIB] as const;
  const roll = randomInt(100);
  if (roll < 5) return 0;
  return randomInt(roll < 70 ? few : roll < 95 ? some : many);
}

/** What `berth serve` does before its start while PostgreSQL is away: it keeps what sshd logs (uploads/log/spool.ts). */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from './config.ts';
import { lockInstance } from './db/instance-lock.ts';
import { isUsername } from './directories/host.ts';
import { errorCode, errorMessage } from './errors.ts';
import { yielder } from './event-loop.ts';
import type { Log } from './log.ts';
import { linkLog } from './sftp/log-socket.ts';
import { pathsOf } from './sftp/paths.ts';
import { jailFiles } from './uploads/file-path.ts';
import { Speakers } from './uploads/log/speakers.ts';
import { SpoolQueues } from './uploads/log/spool-queues.ts';
import { openTransferLog } from './uploads/log/transfer-log.ts';

/** Listens until it is disposed of. @throws {OperatorError} when another process does, or the sockets cannot be made. */
export async function keepLog(config: Config, log: Log): Promise<AsyncDisposable> {
  const paths = pathsOf(config);
  await using parts = new AsyncDisposableStack();
  parts.use(lockInstance(join(config.stateDir, 'serve.lock')));
  const failed = (error: unknown): void => log.error({ reason: errorMessage(error) }, 'the spool takes no more');
  const queues = new SpoolQueues(paths.spool, failed);
  const speakers = new Speakers(jailFiles(config.jailDir), () => undefined);
  const sockets = await openTransferLog(paths.corner, (lines) => {
    for (const [user, own] of speakers.byUser(lines)) queues.add(user, own);
  });
  parts.defer(() => sockets.close());
  const pause = yielder();
  for (const username of (await readdir(paths.jails)).filter(isUsername)) {
    try {
      await linkLog(paths, username, sockets);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error; // no jail
    }
    await pause();
  }
  const owned = parts.move();
  return { [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

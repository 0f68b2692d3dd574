/**
 * The transfer log: the sockets to which sshd's internal-sftp writes from inside the jails (`/dev/log` there), read
 * by a worker thread.
 *
 * Promises: messages arrive in the order in which sshd sent them. A restarted log listens on new sockets; until a jail
 * is linked to one, what its sessions do is not heard and the scan has to find it.
 */
import { chmodSync, mkdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { OperatorError } from '../../errors.ts';
import type { FromWorker, Line, ToWorker } from './transfer-log-worker.ts';

/** The longest socket path that unix(7) takes, without its NUL. */
const SOCKET_PATH_LIMIT = 107;

/** The thread keeps nothing but what it is about to hand on. */
const HEAP = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 };

export interface TransferLog {
  /** The socket to link jails to. */
  currentSocket(): string;
  /** All of its sockets. */
  readonly allSockets: readonly string[];
  /** Opens a further socket, for when the current one has as many links as the file system allows; it is then current. */
  moreSockets(): Promise<string>;
  /** Whether the thread runs. */
  listening(): boolean;
  close(): Promise<void>;
}

/**
 * Listens below `folder`, which has to lie on the jails' file system.
 * @param onLines gets each batch; what it throws or rejects with ends the process, so it must not.
 * @throws {OperatorError} when the sockets cannot be made.
 */
export async function openTransferLog(folder: string, onLines: (lines: readonly Line[]) => void): Promise<TransferLog> {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
  const worker = new Worker(new URL(`./transfer-log-worker${extname(import.meta.url)}`, import.meta.url), {
    resourceLimits: HEAP,
  });
  let running = true;
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      running = false;
      resolve();
    });
  });
  let answer = Promise.withResolvers<void>();
  worker.on('message', (message: FromWorker) => {
    if (message.kind === 'lines') onLines(message.lines);
    else if (message.kind === 'listening') answer.resolve();
    else answer.reject(new OperatorError(`the transfer log cannot listen on ${message.path}: ${message.reason}`));
  });

  const sockets: string[] = [];
  const send = (message: ToWorker): void => worker.postMessage(message);

  async function listen(): Promise<string> {
    const path = join(folder, `log-${sockets.length + 1}.sock`);
    if (Buffer.byteLength(path) > SOCKET_PATH_LIMIT) {
      throw new OperatorError(
        `the path ${path} is too long for a socket (${SOCKET_PATH_LIMIT}): use a shorter BERTH_JAIL_DIR`,
      );
    }
    answer = Promise.withResolvers();
    send({ kind: 'listen', path });
    await answer.promise;
    sockets.push(path);
    return path;
  }

  let opening: Promise<string> | undefined;
  await listen().catch(async (error: unknown) => {
    await worker.terminate();
    throw error;
  });
  return {
    currentSocket: () => sockets.at(-1) ?? '',
    allSockets: sockets,
    moreSockets: () => (opening ??= listen().finally(() => (opening = undefined))),
    listening: () => running,
    async close() {
      send({ kind: 'close' });
      await exited;
    },
  };
}

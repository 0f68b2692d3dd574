/**
 * The transfer log of `berth serve`. It is opened once, at the first attempt to start, and outlives attempts that fail while PostgreSQL
 * is away: lines that sshd logs meanwhile are kept in the journal.
 */
import { readdirSync, renameSync, rmdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../foundation/base/config.ts';
import { lockInstance } from '../foundation/db/instance-lock.ts';
import { isUsername } from '../rules/directories/host.ts';
import { errorCode } from '../foundation/base/errors.ts';
import { yielder } from '../foundation/base/event-loop.ts';
import type { Log } from '../foundation/base/log.ts';
import { linkLog } from '../machine/sftp/jail.ts';
import { ensureFolder } from '../machine/sftp/files.ts';
import { type Paths, pathsOf } from '../machine/sftp/paths.ts';
import { isThere } from '../foundation/base/files.ts';
import { noteFirstStart } from '../arrivals/uploads/log/journal-start.ts';
import { openTransferLog, type TransferLog } from '../arrivals/uploads/log/transfer-log.ts';

export class LogKeeper implements AsyncDisposable {
  readonly #config: Config;
  readonly #log: Log;
  readonly #paths: Paths;
  #opened: TransferLog | undefined;

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
    this.#paths = pathsOf(config);
  }

  /** The caller must hold the instance lock. @throws {OperatorError} when the sockets cannot be made. */
  async open(): Promise<TransferLog> {
    if (this.#opened?.listening()) return this.#opened;
    const { corner, journal, spool } = this.#paths;
    noteFirstStart(journal);
    ensureFolder(journal, 0o700);
    takeOver(spool, journal);
    const { jailDir, logSockets: inherited } = this.#config;
    return (this.#opened = await openTransferLog({ corner, journal, jailDir, inherited, log: this.#log }));
  }

  /** Keeps sshd's lines until it is disposed of; the transfer log stays open. @throws {OperatorError} when another process does. */
  async keep(): Promise<AsyncDisposable> {
    await using parts = new AsyncDisposableStack();
    parts.use(lockInstance(join(this.#config.stateDir, 'serve.lock')));
    const sockets = await this.open();
    const pause = yielder();
    for (const username of (await readdir(this.#paths.jails)).filter(isUsername)) {
      try {
        linkLog(this.#paths, username, sockets);
      } catch (error) {
        if (errorCode(error) !== 'ENOENT') throw error; // the jail is missing
      }
      await pause();
    }
    const owned = parts.move();
    return { [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened?.close();
  }
}

/** Takes over the lines that an earlier berth kept while PostgreSQL was unavailable. */
function takeOver(spool: string, journal: string): void {
  if (!isThere(spool)) return;
  for (const user of readdirSync(spool)) {
    if (!isThere(join(journal, user))) renameSync(join(spool, user), join(journal, user));
  }
  if (readdirSync(spool).length === 0) rmdirSync(spool);
}

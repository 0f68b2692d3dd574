/** Does what a look has to wait for: the write barrier, the disk, or the kernel's word on who holds the file open. */
import { setTimeout } from 'node:timers/promises';
import { isUnavailable } from '../../db/away.ts';
import type { Log } from '../../log.ts';
import type { Durable } from '../disk/durable.ts';
import type { FilesRoot } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import { isAlive } from '../processes.ts';
import type { Wait } from './decision.ts';
import type { FileStat } from './file-stat.ts';
import { REST } from './look.ts';
import type { Entry } from './namespace.ts';
import { isLike } from './unmatched.ts';

/** How long to wait before trying again when a disk fails, in ms. */
const RETRY = 1000;

export interface PrepareOptions {
  readonly log: Log;
  readonly durable: Durable;
  readonly filesRoot: FilesRoot;
  /** Resolves when everything has been followed that sshd had logged of the directory before the call. */
  caughtUp(jail: Jail): Promise<void>;
  /** Whether a session of the directory holds that inode open for writing, by the kernel's word. */
  isHeld(directoryId: string, inode: number): Promise<boolean>;
}

/**
 * Resolves when the entry may be looked at again, after a while when the disk fails. Never rejects.
 * @param stat what the last look saw.
 */
export async function prepare(
  entry: Entry,
  wait: Exclude<Wait, 'rest'>,
  stat: FileStat | undefined,
  { signal, ...options }: PrepareOptions & { readonly signal: AbortSignal },
): Promise<void> {
  const { id, sftp_username } = entry.directory.jail;
  // News begins the progress anew; what is found out here does not count then.
  const { progress } = entry;
  try {
    if (wait === 'sync') {
      const path = entry.isAttached ? entry.path : (entry.closes.at(-1)?.path ?? '');
      progress.synced = await options.durable.sync(options.filesRoot(sftp_username), path);
    } else if (wait === 'barrier') {
      await options.caughtUp(entry.directory.jail);
      // Another size was not set when a handle writes it that the log has elsewhere: a folder was renamed meanwhile.
      const isSetOnly = progress.wasSet && entry.closes.length === 0;
      if (isSetOnly && (await isExplained(entry, stat, options))) await sleep(REST, signal);
      else progress.seen = stat ?? null;
    } else {
      await options.caughtUp(entry.directory.jail);
      progress.isUnexplained = !(await isExplained(entry, stat, options));
      if (!progress.isUnexplained) await sleep(REST, signal);
    }
  } catch (error) {
    if (!isUnavailable(error)) options.log.error({ err: error, directory: id }, 'cannot look at a file, trying again');
    await sleep(RETRY, signal);
  }
}

/** Whether the log or the kernel knows who wrote it, or does still. */
async function isExplained(entry: Entry, stat: FileStat | undefined, { isHeld }: PrepareOptions): Promise<boolean> {
  if (!stat) return false;
  // A session that died without a word has its handles until somebody notices: the file was cut off.
  const isCut = [...entry.writers].some(({ isDoubtful, pid }) => !isDoubtful && !isAlive(pid));
  return isCut || isToldElsewhere(entry, stat) || (await isHeld(entry.directory.jail.id, stat.inode));
}

/** Whether a look that is still to come may tell of the file: the log has its close under another name. */
function isToldElsewhere(entry: Entry, stat: FileStat): boolean {
  const { due, underWay } = entry.directory;
  return [...due, ...underWay].some(
    (other) => other !== entry && other.closes.some((close) => close.inode === stat.inode || isLike(close, stat)),
  );
}

/** Resolves after so many ms, or when the signal says so. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return setTimeout(ms, undefined, { signal }).catch(() => undefined);
}

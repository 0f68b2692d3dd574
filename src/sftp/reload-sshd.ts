/** Tells our sshd to read its configuration and keys again: it executes itself, and sessions go on (sshd(8), SIGHUP). */
import type { Paths } from './paths.ts';
import { listenerOf } from './sshd-listener.ts';

/** @returns the process that was told; undefined when none runs. */
export function reloadSshd(paths: Pick<Paths, 'sshd'>): number | undefined {
  const listener = listenerOf(paths);
  if (listener !== undefined) process.kill(listener, 'SIGHUP');
  return listener;
}

/**
 * Knows whether the machine was shut down cleanly before it last came up. If not, files that clients had closed may be short or empty
 * on the disk.
 *
 * `boot` in the state folder names the present boot. scripts/lib/end-sessions removes it after it has ended the sessions and synced the
 * disk. So a file that an earlier boot has left means an unclean shutdown.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { type Micros, SECOND } from './clock.ts';
import { isThere, sync } from './files.ts';

/** A boot after an unclean shutdown. */
export interface UncleanBoot {
  /** When it was first noticed, before sshd started: by the clock, and in seconds since the machine came up. */
  readonly at: Micros;
  readonly uptime: number;
}

interface Noted {
  readonly id: string;
  readonly unclean: UncleanBoot | null;
}

/**
 * Call this before sshd starts.
 * @param id the boot's id, for berth.service, which cannot read the kernel's.
 * @returns undefined after a clean shutdown.
 */
export function noteBoot(stateDir: string, id: string | undefined, now: Micros): UncleanBoot | undefined {
  const file = join(stateDir, 'boot');
  const current = id ?? kernelsBoot();
  const noted = readNoted(file);
  if (noted?.id === current) return noted.unclean ?? undefined;
  const unclean = noted ? { at: now, uptime: uptime() } : null;
  const next: Noted = { id: current, unclean };
  const fresh = `${file}.new`;
  const fd = openSync(fresh, 'w', 0o600);
  try {
    writeSync(fd, `${JSON.stringify(next)}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(fresh, file);
  sync(stateDir);
  return unclean ?? undefined;
}

/** The time of the boot by the present clock. The clock may have been wrong when the machine came up. */
export function bootedBy(boot: UncleanBoot, now: Micros): Micros {
  return Math.max(boot.at, now - (uptime() - boot.uptime) * SECOND);
}

/** A container can start again within one boot of the machine, so the start time of its first process is part of the id. */
function kernelsBoot(): string {
  const id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  const stat = readFileSync('/proc/1/stat', 'latin1');
  return `${id} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]}`;
}

/** An unreadable file counts as left by an earlier boot. */
function readNoted(file: string): Noted | undefined {
  if (!isThere(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Noted;
  } catch {
    return { id: '', unclean: null };
  }
}

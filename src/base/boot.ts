/**
 * Whether the machine went down in order before it last came up. Without that, files that clients had closed may be short or empty
 * on the disk.
 *
 * `boot` in the state folder names the boot that is under way. scripts/lib/end-sessions removes it when it has ended the sessions
 * and synced the disk; one that an earlier boot has left says that there was no time for that.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { type Micros, SECOND } from './clock.ts';
import { sync } from './sync.ts';
import { isThere } from './there.ts';

/** A boot that followed no clean shutdown. */
export interface UncleanBoot {
  /** When it was first noticed, before sshd was started: by the clock, and in seconds since the machine came up. */
  readonly at: Micros;
  readonly uptime: number;
}

interface Noted {
  readonly id: string;
  readonly unclean: UncleanBoot | null;
}

/**
 * Call it before sshd is started.
 * @param id of the boot, when the kernel's cannot be read (berth.service).
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

/** The boot time by the present clock, which may have been wrong when the machine came up. */
export function bootedBy(boot: UncleanBoot, now: Micros): Micros {
  return Math.max(boot.at, now - (uptime() - boot.uptime) * SECOND);
}

/** A container starts without a boot of the machine: its first process is another. */
function kernelsBoot(): string {
  const id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  const stat = readFileSync('/proc/1/stat', 'latin1');
  return `${id} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]}`;
}

/** An unreadable one was not removed either. */
function readNoted(file: string): Noted | undefined {
  if (!isThere(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Noted;
  } catch {
    return { id: '', unclean: null };
  }
}

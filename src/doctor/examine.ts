/** All checks, one after the other: one that breaks says so and does not keep the others from looking. */
import { setTimeout } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { errorMessage } from '../errors.ts';
import { checkCertificate } from './checks/certificate.ts';
import { checkClock } from './checks/clock.ts';
import { checkDatabase } from './checks/database.ts';
import { checkDeliveries } from './checks/deliveries.ts';
import { checkDirectories } from './checks/directories.ts';
import { checkDisk } from './checks/disk.ts';
import { checkFolders } from './checks/folders.ts';
import { checkLimits } from './checks/limits.ts';
import { checkLogin } from './checks/login.ts';
import { checkPrograms } from './checks/programs.ts';
import { checkServe, checkSshd } from './checks/running.ts';
import { checkSshdFiles } from './checks/sshd-files.ts';
import { checkUsers } from './checks/users.ts';
import { type Check, fail, type Finding } from './finding.ts';

/** How long a check may take, in ms. */
const TIMEOUT = 120_000;

const CHECKS: Readonly<Record<string, Check>> = {
  programs: checkPrograms,
  folders: checkFolders,
  'sshd files': checkSshdFiles,
  database: checkDatabase,
  users: checkUsers,
  directories: checkDirectories,
  limits: checkLimits,
  disk: checkDisk,
  certificate: checkCertificate,
  clock: checkClock,
  deliveries: checkDeliveries,
  serve: checkServe,
  sshd: checkSshd,
};

export interface Examined extends Finding {
  /** The name of the check. */
  readonly check: string;
}

export interface ExamineOptions {
  readonly clock: Clock;
  /** Logs in to a throw-away directory as well. */
  readonly login: boolean;
}

/** Yields what each check finds, in order, as it is found. Never throws. */
export async function* examine(config: Config, { clock, login }: ExamineOptions): AsyncGenerator<Examined> {
  for (const [name, check] of Object.entries(login ? { ...CHECKS, login: checkLogin } : CHECKS)) {
    for (const finding of await outcomeOf(async () => check(config, clock))) yield { check: name, ...finding };
  }
}

async function outcomeOf(check: () => Promise<Finding[]>): Promise<Finding[]> {
  const done = new AbortController();
  const late = setTimeout(TIMEOUT, undefined, { signal: done.signal, ref: false }).then(() => [
    fail(`no answer after ${TIMEOUT / 1000} s`, 'see what the machine is busy with: top, iotop, dmesg'),
  ]);
  late.catch(() => undefined);
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    const line = errorMessage(error).split('\n')[0] ?? '';
    return [fail(`this check could not be done: ${line}`, 'mend what the other lines name, then run the doctor again')];
  } finally {
    done.abort();
  }
}

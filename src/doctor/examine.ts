/** All checks, each on its own: one that breaks says so and does not keep the others from looking. */
import { setTimeout } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { errorMessage } from '../errors.ts';
import { certificateCheck } from './checks/certificate.ts';
import { clockCheck } from './checks/clock.ts';
import { databaseCheck } from './checks/database.ts';
import { deliveriesCheck } from './checks/deliveries.ts';
import { directoriesCheck } from './checks/directories.ts';
import { diskCheck } from './checks/disk.ts';
import { foldersCheck } from './checks/folders.ts';
import { limitsCheck } from './checks/limits.ts';
import { loginCheck } from './checks/login.ts';
import { programsCheck } from './checks/programs.ts';
import { serveCheck, sshdCheck } from './checks/running.ts';
import { sshdFilesCheck } from './checks/sshd-files.ts';
import { usersCheck } from './checks/users.ts';
import { type Check, fail, type Finding } from './finding.ts';

/** How long a check may take, in ms. */
const PATIENCE = 120_000;

export interface Examined extends Finding {
  /** The name of the check. */
  readonly check: string;
}

export interface ExamineOptions {
  readonly clock: Clock;
  /** Logs in to a throw-away directory as well. */
  readonly login: boolean;
}

/** What each check finds, in order, as it is found. Never throws. */
export async function* examine(config: Config, { clock, login }: ExamineOptions): AsyncGenerator<Examined> {
  const checks = [
    programsCheck(),
    foldersCheck(config),
    sshdFilesCheck(config),
    databaseCheck(config),
    usersCheck(config),
    directoriesCheck(config),
    limitsCheck(config),
    diskCheck(config),
    certificateCheck(config, clock),
    clockCheck(config, clock),
    deliveriesCheck(config, clock),
    serveCheck(config),
    sshdCheck(config),
    ...(login ? [loginCheck(config, clock)] : []),
  ];
  for (const check of checks) {
    for (const finding of await findingsOf(check)) yield { check: check.name, ...finding };
  }
}

async function findingsOf(check: Check): Promise<Finding[]> {
  const stop = new AbortController();
  const late = setTimeout(PATIENCE, [fail('it took too long', 'see what the machine is busy with')], {
    signal: stop.signal,
    ref: false,
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([Promise.try(() => check.run()), late]);
  } catch (error) {
    const line = errorMessage(error).split('\n')[0] ?? '';
    return [fail(`this could not be looked at: ${line}`, 'mend what the other lines name, then look again')];
  } finally {
    stop.abort();
  }
}

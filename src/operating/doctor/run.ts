/**
 * `berth doctor`: runs every check, one after the other, and prints its findings. A check that fails to run is a finding, too, and does
 * not stop the others.
 */
import { setTimeout } from 'node:timers/promises';
import type { Clock } from '../../foundation/base/clock.ts';
import type { Config } from '../../foundation/base/config.ts';
import { errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { columns } from '../../foundation/base/text.ts';
import { checkBackups, checkDatabase, checkDeliveries, checkNodes } from './checks/database.ts';
import { checkCertificate, checkServe, checkSshd, checkUploadChecker } from './checks/running.ts';
import { checkClock, checkDisk, checkFolders, checkQuotas } from './checks/machine.ts';
import { checkDirectories, checkUsers } from './checks/directories.ts';
import {
  checkLimits,
  checkPrograms,
  checkSshdFiles,
  checkTrial,
  checkUnits,
  settingsFindings,
} from './checks/installation.ts';
import { checkLogin } from './checks/login.ts';
import { type Check, fail, type Finding } from './finding.ts';

/** How long a check may take. */
const TIMEOUT_MS = 120_000;

/** The exit statuses of monitoring plug-ins: 0 all is well, 1 warnings, 2 failures. */
const STATUS: Readonly<Record<Finding['verdict'], number>> = { ok: 0, warn: 1, fail: 2 };

const CHECKS: Readonly<Record<string, Check>> = {
  programs: checkPrograms,
  folders: checkFolders,
  'sshd files': checkSshdFiles,
  database: checkDatabase,
  nodes: checkNodes,
  users: checkUsers,
  directories: checkDirectories,
  limits: checkLimits,
  disk: checkDisk,
  quotas: checkQuotas,
  backups: checkBackups,
  certificate: checkCertificate,
  clock: checkClock,
  deliveries: checkDeliveries,
  checks: checkUploadChecker,
  trial: checkTrial,
  units: checkUnits,
  serve: checkServe,
  sshd: checkSshd,
};

interface DoctorOptions {
  /** Reads the environment. An error in it is a finding, too. */
  readonly config: () => Config;
  /** The environment, to find unknown settings. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Also logs in to a test directory. */
  readonly login?: boolean | undefined;
  readonly json?: boolean | undefined;
  print(line: string): void;
  /** Ends it after the current check, which cleans up first. */
  readonly stop: AbortSignal;
}

/** @returns the exit status. */
export async function runDoctor(options: DoctorOptions): Promise<number> {
  const { json, print, stop } = options;
  const layOut = columns([4, 12]);
  const all: object[] = [];
  let status = 0;
  for await (const [check, { verdict, text, remedy }] of examine(options)) {
    stop.throwIfAborted();
    status = Math.max(status, STATUS[verdict]);
    all.push({ check, verdict, text, remedy: remedy ?? null });
    if (!json) layOut([[verdict, check, remedy === undefined ? text : `${text} -> ${remedy}`]]).forEach(print);
  }
  if (json) print(JSON.stringify(all));
  return status;
}

async function* examine({
  config,
  environment,
  clock,
  login,
}: DoctorOptions): AsyncGenerator<[check: string, Finding]> {
  let settings: Config;
  try {
    settings = config();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return yield ['configuration', fail(error.message, 'see docs/operations.md, "Settings"')];
  }
  for (const finding of settingsFindings(environment)) yield ['settings', finding];
  const explained = new Set<string>();
  for (const [name, check] of Object.entries(login ? { ...CHECKS, login: checkLogin } : CHECKS)) {
    for (const finding of await outcomeOf(async () => check(settings, clock))) {
      finding.explains?.forEach((each) => explained.add(each));
      if (finding.verdict === 'ok' || !explained.has(name)) yield [name, finding];
    }
  }
}

async function outcomeOf(check: () => Promise<Finding[]>): Promise<Finding[]> {
  const done = new AbortController();
  const late = setTimeout(TIMEOUT_MS, undefined, { signal: done.signal, ref: false }).then(() => [
    fail(`no answer after ${TIMEOUT_MS / 1000} s`, 'see what keeps the machine busy: top, iotop, dmesg'),
  ]);
  late.catch(() => undefined);
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    const line = errorMessage(error).split('\n')[0] ?? '';
    return [fail(`this check could not run: ${line}`, 'follow the other lines, then run the doctor again')];
  } finally {
    done.abort();
  }
}

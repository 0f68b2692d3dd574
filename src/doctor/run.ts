/** `berth doctor`: prints what `examine` finds, and says by its exit status how bad it is. */
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { errorMessage, OperatorError } from '../errors.ts';
import { columns } from '../terminal.ts';
import { examine, type Examined } from './examine.ts';
import { fail, type Finding } from './finding.ts';

/** As monitoring plug-ins have it: 0 all is well, 1 a warning, 2 something is broken. */
const STATUS: Readonly<Record<Finding['verdict'], number>> = { ok: 0, warn: 1, fail: 2 };

export interface DoctorOptions {
  /** Reads the environment; what is wrong there is a finding, too. */
  readonly config: () => Config;
  readonly clock: Clock;
  readonly login: boolean;
  readonly json: boolean;
  print(line: string): void;
  /** Ends it after the check that is running, so that nothing is left behind. */
  readonly stop: AbortSignal;
}

/** @returns the exit status. */
export async function runDoctor({ config, clock, login, json, print, stop }: DoctorOptions): Promise<number> {
  const layOut = columns([4, 12]);
  const all: Examined[] = [];
  const settings = configuration(config);
  for await (const found of 'check' in settings ? [settings] : examine(settings, { clock, login })) {
    stop.throwIfAborted();
    all.push(found);
    const { verdict, check, text, remedy } = found;
    if (!json) layOut([[verdict, check, remedy === undefined ? text : `${text} -> ${remedy}`]]).forEach(print);
  }
  stop.throwIfAborted();
  if (json) {
    print(JSON.stringify(all.map(({ check, verdict, text, remedy = null }) => ({ check, verdict, text, remedy }))));
  }
  return Math.max(...all.map(({ verdict }) => STATUS[verdict]));
}

function configuration(config: () => Config): Config | Examined {
  try {
    return config();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { check: 'configuration', ...fail(errorMessage(error), 'see the README, "The environment"') };
  }
}

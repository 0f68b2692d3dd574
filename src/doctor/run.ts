/** `berth doctor`: prints what `examine` finds, and says by the exit status how bad it is. */
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { errorMessage, OperatorError } from '../errors.ts';
import { examine, type Examined } from './examine.ts';
import type { Verdict } from './finding.ts';

/** As monitoring plug-ins have it: 0 all is well, 1 a warning, 2 something is broken. */
const STATUS: Record<Verdict, number> = { ok: 0, warn: 1, fail: 2 };

export interface DoctorOptions {
  /** Reads the environment; what is wrong there is a finding, too. */
  readonly config: () => Config;
  readonly clock: Clock;
  readonly login: boolean;
  readonly json: boolean;
  print(line: string): void;
}

/** @returns the exit status. */
export async function runDoctor({ config, clock, login, json, print }: DoctorOptions): Promise<number> {
  const all: Examined[] = [];
  const take = (found: Examined): void => {
    all.push(found);
    if (!json) print(line(found));
  };
  const settings = configuration(config);
  if ('check' in settings) take(settings);
  else for await (const found of examine(settings, { clock, login })) take(found);
  if (json)
    print(JSON.stringify(all.map(({ check, verdict, text, remedy = null }) => ({ check, verdict, text, remedy }))));
  return Math.max(...all.map(({ verdict }) => STATUS[verdict]));
}

function configuration(config: () => Config): Config | Examined {
  try {
    return config();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return {
      check: 'configuration',
      verdict: 'fail',
      text: errorMessage(error),
      remedy: 'see the README, "The environment"',
    };
  }
}

function line({ check, verdict, text, remedy }: Examined): string {
  return `${verdict.padEnd(4)}  ${check.padEnd(12)}  ${text}${remedy === undefined ? '' : ` -> ${remedy}`}`;
}

/** The result of a check. */
import type { Clock } from '../../foundation/base/clock.ts';
import type { Config } from '../../foundation/base/config.ts';

export interface Finding {
  readonly verdict: 'ok' | 'warn' | 'fail';
  readonly text: string;
  /** How to fix it. */
  readonly remedy?: string;
  /** Checks whose problems follow from this one, and are not reported beside it. */
  readonly explains?: readonly string[];
}

/** Checks one thing. If it throws, that is reported as a failure of the check. */
export type Check = (config: Config, clock: Clock) => Finding[] | Promise<Finding[]>;

export const ok = (text: string): Finding => ({ verdict: 'ok', text });
export const warn = (text: string, remedy: string): Finding => ({ verdict: 'warn', text, remedy });
export const fail = (text: string, remedy: string): Finding => ({ verdict: 'fail', text, remedy });

/** The problems, or one finding that there is none. */
export function orOk(problems: readonly (Finding | false | undefined)[], text: string): Finding[] {
  const found = problems.filter((problem) => problem !== false && problem !== undefined);
  return found.length > 0 ? found : [ok(text)];
}

/** Lists a few names: `a, b, c and 4 more`. */
export function some(names: readonly string[], most = 3): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

/** A program's output on one line. */
export function oneLine(text: string): string {
  return text.trim().replaceAll(/\s*[\r\n]\s*/g, '; ');
}

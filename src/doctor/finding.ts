/** What the doctor finds, and how a check says it. */

export type Verdict = 'ok' | 'warn' | 'fail';

export interface Finding {
  readonly verdict: Verdict;
  readonly text: string;
  /** What to do about it. */
  readonly remedy?: string;
}

/** Looks at one thing; what it throws counts as a failure of its own. */
export interface Check {
  readonly name: string;
  run(): Finding[] | Promise<Finding[]>;
}

export const ok = (text: string): Finding => ({ verdict: 'ok', text });
export const warn = (text: string, remedy: string): Finding => ({ verdict: 'warn', text, remedy });
export const fail = (text: string, remedy: string): Finding => ({ verdict: 'fail', text, remedy });

/** The problems, or the one line that says that there is none. */
export function orOk(problems: readonly Finding[], text: string): Finding[] {
  return problems.length > 0 ? [...problems] : [ok(text)];
}

/** `a, b, c and 4 more`: never a line of a thousand names. */
export function some(names: readonly string[], most = 3): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

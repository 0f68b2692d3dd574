/** A condition on the file that a request would replace or remove. */
import { BerthError } from '../base/errors.ts';

export interface Precondition {
  /** There must be no file; one that appears meanwhile wins. */
  readonly isNew: boolean;
  /** Whether it allows the file with that tag; undefined stands for no file. */
  allows(tag: string | undefined): boolean;
}

/** @throws {BerthError} `precondition_failed`. */
export function requireAllowed(condition: Precondition | undefined, tag: string | undefined): void {
  if (!condition || condition.allows(tag)) return;
  throw new BerthError(
    'precondition_failed',
    tag === undefined ? 'There is no such file' : 'There is another file by now',
  );
}

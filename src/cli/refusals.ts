/** Turns a rule's refusal into a command's error: one line, no stack. */
import { BerthError, OperatorError, ValidationError } from '../base/errors.ts';

/** @returns the result of `work`. @throws {OperatorError} with the text of the rule that refused. */
export async function sayingRefusals<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BerthError) throw new OperatorError(error.message, { cause: error });
    if (!(error instanceof ValidationError)) throw error;
    const problems = Object.entries(error.fields).map(([field, messages]) => `${field} ${messages.join(', ')}`);
    throw new OperatorError(problems.join('; '), { cause: error });
  }
}

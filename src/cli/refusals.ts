/** What a rule refuses, as a command says it: one line, no stack. */
import { BerthError, OperatorError, ValidationError } from '../errors.ts';

/** What `work` returns. @throws {OperatorError} in the words of the rule that refused. */
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

/**
 * Finds the fields that a form has changed. Each form contains the values that its fields had when it was made (`was_…`), so
 * that saving one field does not revert another that somebody else has changed meanwhile. If both have changed the same field,
 * the user has to save again.
 */
import { ValidationError } from '../../foundation/base/errors.ts';
import type { FieldProblem } from '../../foundation/base/problems.ts';
import type { FormFields } from './environment.ts';

/** The prefix of the fields with the earlier values. */
export const WAS = 'was_';

/** Browsers end lines with CRLF, and remove line ends from single-line fields. */
const plain = (text: string): string => text.replace(/[\r\n]+/g, '\n').trim();
const joined = (text: string): string => text.replace(/[\r\n]/g, '');

/** Whether two texts are the same for a browser: an unchanged form may send one for the other. */
const isSame = (a: string, b: string): boolean => plain(a) === plain(b) || joined(a) === joined(b);

/**
 * The fields of `stored` that the form has changed, with the form's values. Fields that the form does not have stay the same.
 * @param stored the current values.
 * @throws {ValidationError} for fields that somebody else has changed too since the form was made.
 */
export function changedFields<Name extends string>(
  given: FormFields,
  stored: Readonly<Record<Name, string>>,
): Partial<Record<Name, string>> {
  const changed: Partial<Record<Name, string>> = {};
  const conflicts: Record<string, FieldProblem[]> = {};
  for (const [name, now] of Object.entries<string>(stored)) {
    const text = given[name];
    const was = given[`${WAS}${name}`] ?? now;
    if (text === undefined || isSame(text, was) || isSame(text, now)) continue;
    if (isSame(was, now)) changed[name as Name] = text;
    else
      conflicts[name] = [
        ['sentence', `Somebody changed this to "${now}" while you were editing. Save again to replace it.`],
      ];
  }
  if (Object.keys(conflicts).length > 0) throw new ValidationError(conflicts);
  return changed;
}

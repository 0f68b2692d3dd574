/**
 * Which fields of a form were changed in it. Each form carries what its fields held when it was made (`was_…`), so that saving one
 * field reverts no other that somebody has changed meanwhile; and of one that both have changed, it asks first.
 */
import { type FieldErrors, ValidationError } from '../base/errors.ts';
import type { FormFields } from './environment.ts';

/** The prefix of the fields that say what was there. */
export const WAS = 'was_';

/** A browser ends lines with CRLF, and drops line ends from fields of one line. */
const plain = (text: string): string => text.replace(/[\r\n]+/g, '\n').trim();
const joined = (text: string): string => text.replace(/[\r\n]/g, '');

/** Whether a form that was not touched would send that text. */
const isSame = (a: string, b: string): boolean => plain(a) === plain(b) || joined(a) === joined(b);

/**
 * Those of `stored` that the form has changed, as it gives them. A field that the form does not have stays.
 * @param stored the texts of now.
 * @throws {ValidationError} for fields that somebody else has changed as well since the form was made.
 */
export function changedFields<Name extends string>(
  given: FormFields,
  stored: Readonly<Record<Name, string>>,
): Partial<Record<Name, string>> {
  const changed: Partial<Record<Name, string>> = {};
  const conflicts: FieldErrors = {};
  for (const [name, now] of Object.entries<string>(stored)) {
    const text = given[name];
    const was = given[`${WAS}${name}`] ?? now;
    if (text === undefined || isSame(text, was) || isSame(text, now)) continue;
    if (isSame(was, now)) changed[name as Name] = text;
    else conflicts[name] = [`Somebody changed this to "${now}" while you were editing. Save again to replace it.`];
  }
  if (Object.keys(conflicts).length > 0) throw new ValidationError(conflicts);
  return changed;
}

/** Reads forms and their fields, and answers with a redirect, or with the page again. */
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { type Micros, parseMicros } from '../../foundation/base/clock.ts';
import { BerthError, ValidationError } from '../../foundation/base/errors.ts';
import type { FormFields, PageContext, Refused } from './environment.ts';
import type { FieldProblem } from '../../foundation/base/problems.ts';

/** The text fields of the posted form, without files. If a name is repeated, the last one counts. */
export async function formFields(c: PageContext): Promise<FormFields> {
  const entries = Object.entries(await c.req.parseBody());
  return Object.fromEntries(entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])));
}

/** Refusals that a page shows above its form: the status, and a text if it differs from the refusal's. */
const PROBLEMS: Partial<Record<BerthError['code'], readonly [ContentfulStatusCode, string?]>> = {
  directory_limit: [422],
  quota_unavailable: [409],
  rate_limited: [429, 'There were too many attempts. Wait a minute and try again.'],
};

/**
 * Runs `change` with the fields of the posted form. `change` returns the URL to redirect to, or the response. If it is refused,
 * `page` is shown again with the given fields and the errors. Other errors are thrown again.
 */
export async function submitted(
  c: PageContext,
  page: (c: PageContext) => Response | Promise<Response>,
  change: (given: FormFields) => Promise<string | Response>,
): Promise<Response> {
  const given = await formFields(c);
  try {
    const next = await change(given);
    return typeof next === 'string' ? c.redirect(next, 303) : next;
  } catch (error) {
    const { status, refused } = refusalOf(error);
    c.status(status);
    c.set('refused', { given, ...refused });
    return page(c);
  }
}

function refusalOf(error: unknown): { status: ContentfulStatusCode; refused: Omit<Refused, 'given'> } {
  if (error instanceof ValidationError) return { status: 422, refused: { errors: error.fields } };
  const known = error instanceof BerthError ? PROBLEMS[error.code] : undefined;
  if (!(error instanceof BerthError) || !known) throw error;
  const [status, sentence = `${error.message}.`] = known;
  return { status, refused: { problem: sentence } };
}

/** A time in UTC, as a browser sends it. Undefined if the field is empty, or is not a time. */
export function timeIn(text = ''): Micros | undefined {
  return text === '' ? undefined : parseMicros(`${text}${text.length === 16 ? ':00' : ''}Z`);
}

/** Converts a browser's time in UTC, with or without seconds, to the format of the API. */
export const isoTime = (text: string): string => `${text}${/T\d\d:\d\d$/.test(text) ? ':00' : ''}Z`;

/** The text of a field; null if the field is empty. */
export function textOrNull(text = ''): string | null {
  return text === '' ? null : text.replaceAll('\r\n', '\n');
}

/** The number in a field; undefined if it is empty. Other text is returned as it is, for the rules to refuse. */
export function numberIn(text = ''): unknown {
  if (text === '') return undefined;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

/** Decimal units, in which disks are sold, and binary ones, in which berth counts. A number without a unit means MiB. */
export const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};

/** The size in bytes; null for an empty field. Other text is returned as it is, for the rules to refuse. */
export function bytesIn(text: string): number | string | null {
  if (text === '') return null;
  const [, number = '', unit = 'MiB'] = /^(\d{1,15}(?:\.\d+)?)\s*([KMGT]?i?B)?$/i.exec(text) ?? [];
  const size = UNITS[unit.toUpperCase()];
  return number === '' || size === undefined ? text : Math.round(Number(number) * size);
}

// Finds the fields that a form has changed. Each form contains the values that its fields had when it was made
// (`was_…`), so that saving one field does not revert another that somebody else has changed meanwhile. If both have
// changed the same field, the user has to save again.

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

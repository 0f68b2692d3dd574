/** Reads forms, and answers them with a redirect or with the page again. */
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { type Micros, parseMicros } from '../base/clock.ts';
import { BerthError, ValidationError } from '../base/errors.ts';
import type { FormFields, PageContext, Refused } from './environment.ts';

/** The text fields of the form that was posted; of several with one name the last, and no files. */
export async function formFields(c: PageContext): Promise<FormFields> {
  const entries = Object.entries(await c.req.parseBody());
  return Object.fromEntries(entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])));
}

/** Refusals that a page shows above its form: the status, and a text if not the refusal's own. */
const PROBLEMS: Partial<Record<BerthError['code'], readonly [ContentfulStatusCode, string?]>> = {
  directory_limit: [422],
  quota_unavailable: [409],
  rate_limited: [429, 'There were too many attempts. Wait a minute and try again.'],
};

/**
 * Does what the posted form asks for, and leads to the address, or shows the page, that `change` returns. What is refused is shown by `page`, with
 * what was given. Other errors pass.
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
    const [status, refused] = refusalOf(error);
    c.status(status);
    c.set('refused', { given, ...refused });
    return page(c);
  }
}

function refusalOf(error: unknown): [ContentfulStatusCode, Omit<Refused, 'given'>] {
  if (error instanceof ValidationError) return [422, { errors: error.fields }];
  const known = error instanceof BerthError ? PROBLEMS[error.code] : undefined;
  if (!(error instanceof BerthError) || !known) throw error;
  const [status, sentence = `${error.message}.`] = known;
  return [status, { problem: sentence }];
}

/** A time as a browser sends it, in UTC; undefined for an empty field, and for what is no time. */
export function timeIn(text = ''): Micros | undefined {
  return text === '' ? undefined : parseMicros(`${text}${text.length === 16 ? ':00' : ''}Z`);
}

/** Such a time as the API takes it: with or without seconds, in UTC. */
export const isoTime = (text: string): string => `${text}${/T\d\d:\d\d$/.test(text) ? ':00' : ''}Z`;

/** An empty field stands for no text. */
export function textOrNull(text = ''): string | null {
  return text === '' ? null : text.replaceAll('\r\n', '\n');
}

/** Undefined for an empty field; what is no number stays what it is, for the rules to refuse. */
export function numberIn(text = ''): unknown {
  if (text === '') return undefined;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

/** What a form says. */
import type { FieldErrors } from '../errors.ts';
import { ValidationError } from '../errors.ts';
import type { PageContext } from './environment.ts';

export type FormFields = Readonly<Record<string, string>>;

/** The text fields of the form that was posted; of several with one name the last, and no files. */
export async function formFields(c: PageContext): Promise<FormFields> {
  const entries = Object.entries(await c.req.parseBody());
  return Object.fromEntries(entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])));
}

/** What `change` says is wrong with the fields, for the form to show; undefined when it went well. Other errors pass. */
export async function fieldErrors(change: () => Promise<unknown>): Promise<FieldErrors | undefined> {
  try {
    await change();
    return undefined;
  } catch (error) {
    if (error instanceof ValidationError) return error.fields;
    throw error;
  }
}

/** What was done just before, by the word for it in the page's address: its sentence, and never text from there. */
export function noticeOf(c: PageContext, sentences: Readonly<Record<string, string>>): string | undefined {
  const done = c.req.query('done') ?? '';
  return Object.hasOwn(sentences, done) ? sentences[done] : undefined;
}

/** An empty field stands for no text. */
export function textOrNull(text = ''): string | null {
  return text === '' ? null : text.replaceAll('\r\n', '\n');
}

/** Undefined for an empty field; what is no number stays what it is, for the rules to refuse. */
export function numberIn(text = ''): unknown {
  if (text === '') return undefined;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

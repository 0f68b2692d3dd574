/** Answers a form that is sent twice, by a double click or because the first answer was lost, with the result of the first. */
import { createHash } from 'node:crypto';
import type { FormFields, PageContext } from './environment.ts';

/** How long a result is kept, in memory, since it may have a secret. */
const KEPT_MS = 60_000;

/** The field with a value that each form that is rendered has for itself. */
export const FORM_ID = '_form';

export class SentForms<Result> {
  readonly #results = new Map<string, Promise<Result>>();

  /**
   * Runs `work`, or returns its result for the same form of the same session with the same fields. A form without an id always
   * runs it, and one that was refused runs it again.
   */
  async once(c: PageContext, given: FormFields, work: () => Promise<Result>): Promise<Result> {
    if (given[FORM_ID] === undefined) return work();
    const form = JSON.stringify([c.get('user').sessionId, c.req.path, given]);
    const id = createHash('sha256').update(form).digest('hex');
    const sent = this.#results.get(id);
    if (sent) return sent;
    const result = work();
    this.#results.set(id, result);
    const forget = () => this.#results.delete(id);
    result.then(() => setTimeout(forget, KEPT_MS).unref(), forget);
    return result;
  }
}

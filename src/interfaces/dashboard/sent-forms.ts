/** Answers a form that is sent twice, by a double click or because the first answer was lost, with the result of the first. */
import { createHash } from 'node:crypto';
import type { Micros } from '../../foundation/base/clock.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Store } from '../../foundation/context.ts';
import { keptAt, placeOf, type ResponsePlace, storedOnce } from '../../rules/history/stored-responses.ts';
import type { AccountTarget, StoredResponse } from '../../rules/accounts/actor.ts';
import { type ShownOnce, showOnce } from './after-redirect.ts';
import { accountTarget, type FormFields, type PageContext } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

/** How long the same form gets the result of the first. */
const KEPT_MS = 60_000;

/** The field with a value that each form that is rendered has for itself. */
export const FORM_ID = '_form';

/** Keeps the results in memory. */
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

/**
 * Forms that create something with a secret. What the first answer shows is also stored in the transaction of the change,
 * encrypted with the session's token: with several nodes, the same form may reach another one.
 */
export class CreatingForms {
  readonly #store: Store;
  readonly #here = new SentForms<ShownOnce>();

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Runs `create`, or finds what it has created for this form, and makes the next page show that once.
   * @param toShow what the page shows.
   * @returns the path of that page.
   */
  async create<Result>(
    c: PageContext,
    given: FormFields,
    create: (target: AccountTarget<Result>) => Promise<Result>,
    toShow: (result: Result) => ShownOnce,
  ): Promise<string> {
    const token = sessionToken(c);
    const once = await this.#here.once(c, given, async () => {
      if (given[FORM_ID] === undefined || token === undefined) return toShow(await create(accountTarget(c)));
      return this.#stored(c, placeOf(token, JSON.stringify([c.req.path, given]), []), create, toShow);
    });
    showOnce(c, once);
    return once.page;
  }

  async #stored<Result>(
    c: PageContext,
    place: ResponsePlace,
    create: (target: AccountTarget<Result>) => Promise<Result>,
    toShow: (result: Result) => ShownOnce,
  ): Promise<ShownOnce> {
    const { database, clock } = this.#store;
    const { accountId, actor } = accountTarget(c);
    const before = await keptAt(database.reads, place);
    if (before && isCurrent(before, clock.now())) return opened(place, before);
    let isOurs = false;
    const { id, request } = place;
    const stored = storedOnce(
      place,
      (result: Result) => ({
        id,
        request,
        account_id: accountId,
        answer: place.seal(JSON.stringify(toShow(result))),
        inserted_at: clock.now(),
      }),
      { old: before, taken: () => new BerthError('in_flight', 'This form has been sent before') },
    );
    const response: StoredResponse<Result> = {
      ...stored,
      async keep(tx, result) {
        isOurs = false;
        await stored.keep(tx, result);
        isOurs = true;
      },
    };
    try {
      return toShow(await create({ accountId, actor: actor && { ...actor, response } }));
    } catch (error) {
      // Another node was first. A rule may also refuse what that one has created, such as a second user with the same email.
      const first = isOurs ? undefined : await keptAt(database.reads, place);
      if (!first || !isCurrent(first, clock.now())) throw error;
      return opened(place, first);
    }
  }
}

function opened(place: ResponsePlace, { answer }: { readonly answer: Buffer }): ShownOnce {
  return JSON.parse(place.open(answer)) as ShownOnce;
}

/** The clocks of two nodes may differ. */
function isCurrent({ inserted_at }: { readonly inserted_at: Micros }, now: Micros): boolean {
  return now - inserted_at < KEPT_MS * 1000;
}

/**
 * `Idempotency-Key` on POST: the same request with the same key within 24 hours gets the same response, and is not carried out
 * again.
 *
 * Promise: whenever this process dies, either both a change and its response are stored, or neither. So a rule stores the
 * response in its own transaction, and nothing is written before. A response is repeated only when the host has followed its
 * change. Refusals are not stored. Requests in flight are known only to
 * this process and, on a database that several machines share, by a lock that ends with its connection. So after a crash, no
 * request is in flight.
 */
import type { KeptAnswersTable } from '../../foundation/db/schema.ts';
import { hold, release } from '../../foundation/db/shared.ts';
import {
  ANSWER_LIFE,
  insertKept,
  keptAt,
  type ResponsePlace,
  placeOf,
  requireRoom,
  storedOnce,
} from '../../rules/history/stored-responses.ts';
import { applyCommitted } from '../../rules/directories/change.ts';
import type { RuleContext } from '../../rules/directories/target.ts';
import { apiKeyOf, type Endpoint, type Keep } from './access.ts';
import { readBody } from './body.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';
import type { FieldProblem } from '../../foundation/base/problems.ts';

const LONGEST_KEY = 255;
const PRINTABLE = /^[\x20-\x7e]+$/;

interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Makes endpoints of POST repeatable. If an endpoint does not store its response itself, that is done after it. */
export function createRepeatable(context: RuleContext) {
  const { database, clock, clockLead } = context;
  /** Requests in flight. Each resolves once the stored response was looked up, with whether there was one. */
  const inFlight = new Map<string, Promise<boolean>>();
  /** Responses to changes that were undone, until their rows are removed. */
  const withdrawn = new Set<string>();

  async function isCurrent({ inserted_at }: KeptAnswersTable): Promise<boolean> {
    // A clock that jumps ahead does not count.
    return clock.now() - inserted_at < ANSWER_LIFE || (await clockLead()).now - inserted_at < ANSWER_LIFE;
  }

  async function isWithdrawn(place: ResponsePlace): Promise<boolean> {
    if (!withdrawn.has(place.id)) return false;
    if (await keptAt(database.reads, place)) return true;
    withdrawn.delete(place.id);
    return false;
  }

  /**
   * The stored response, or its row if that is too old.
   * @throws {ValidationError} when the key was used for another request; {BerthError} `in_flight`.
   */
  async function earlier(place: ResponsePlace): Promise<Response | KeptAnswersTable | undefined> {
    if (await isWithdrawn(place)) throw stillInFlight();
    const row = await keptAt(database.reads, place);
    if (!row || !(await isCurrent(row))) return row;
    if (row.request !== place.request) {
      throw wrongField('idempotency_key', 'other_request');
    }
    const { headers, ...answer } = JSON.parse(place.open(row.answer)) as Answer;
    return responseOf({ ...answer, headers: [...headers, ['idempotency-replayed', 'true']] });
  }

  async function firstTime(
    place: ResponsePlace,
    old: KeptAnswersTable | undefined,
    accountId: string,
    perform: (keep: Keep) => ReturnType<Endpoint>,
  ) {
    let isKept = false;
    const rowOf = (answer: Answer): KeptAnswersTable => ({
      id: place.id,
      account_id: accountId,
      request: place.request,
      answer: place.seal(JSON.stringify(answer)),
      inserted_at: clock.now(),
    });
    const stored = storedOnce(place, async (made: Response) => rowOf(await answerOf(made)), {
      old,
      taken: stillInFlight,
    });
    const keep: Keep = (render) => ({
      async keep(tx, result) {
        await stored.keep(tx, render(result));
        isKept = true;
      },
      withdraw() {
        withdrawn.add(place.id);
        return stored.withdraw();
      },
    });
    const response = await perform(keep);
    if (isKept || !response.ok) return response;
    const answer = await answerOf(response);
    await database.db.transaction().execute((tx) => insertKept(tx, rowOf(answer), old));
    return responseOf(answer);
  }

  /** Runs `work` unless another machine has the same request in flight. */
  async function alone({ id }: ResponsePlace, work: () => Promise<Response>): Promise<Response> {
    const name = `answer ${id}`;
    if (!(await hold(database.db, name))) throw stillInFlight();
    try {
      return await work();
    } finally {
      // If the connection has ended, so has the lock.
      await release(database.db, name).catch(() => undefined);
    }
  }

  return function repeatable(endpoint: Endpoint): Endpoint {
    return async (c, principal) => {
      const { incoming } = c.env;
      const key = incoming.headers['idempotency-key'];
      const apiKey = apiKeyOf(incoming);
      if (key === undefined || apiKey === undefined) return endpoint(c, principal);
      const request = [c.req.method, incoming.url ?? '', await readBody(incoming)];
      const place = placeOf(apiKey, checkedKey(String(key)), request);
      const other = inFlight.get(place.id);
      if (other) {
        const answer = (await other) ? await earlier(place) : undefined;
        if (!(answer instanceof Response)) throw stillInFlight();
        return answer;
      }
      const { promise: isRepeated, resolve: looked } = Promise.withResolvers<boolean>();
      inFlight.set(place.id, isRepeated);
      try {
        return await alone(place, async () => {
          const before = await earlier(place);
          looked(before instanceof Response);
          if (before instanceof Response) {
            // A full disk may have kept the host from following the change. It was answered with an error then.
            const id = c.req.param('id');
            if (id !== undefined) await applyCommitted(context, { accountId: principal.accountId, id });
            return before;
          }
          await requireRoom(database.reads, principal.accountId);
          return firstTime(place, before, principal.accountId, (keep) => endpoint(c, { ...principal, keep }));
        });
      } finally {
        // For a request that was refused before the lookup. It changed nothing.
        looked(true);
        await isWithdrawn(place).finally(() => inFlight.delete(place.id));
      }
    };
  };
}

/** @throws {ValidationError} */
function checkedKey(key: string): string {
  const wrong = (...problem: FieldProblem) => wrongField('idempotency_key', ...problem);
  if (key === '') throw wrong('blank');
  if (key.length > LONGEST_KEY) throw wrong('too_long', LONGEST_KEY, 'character');
  if (!PRINTABLE.test(key)) throw wrong('invalid');
  return key;
}

function stillInFlight(): BerthError {
  return new BerthError('in_flight', 'A request with this Idempotency-Key is still in progress');
}

async function answerOf(response: Response): Promise<Answer> {
  return { status: response.status, headers: [...response.headers], body: await response.text() };
}

function responseOf({ status, headers, body }: Answer): Response {
  return new Response(body === '' ? null : body, { status, headers: headers.map(([name, value]) => [name, value]) });
}

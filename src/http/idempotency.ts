/**
 * `Idempotency-Key` on POST: the same key and request within 24 hours gets the same answer, and nothing is done again.
 *
 * Promise: whenever this process dies, a change is there with its answer, or neither is. So a rule keeps the answer in its
 * own transaction; nothing is written before. Refusals are not kept. Which requests are in flight, this process alone
 * knows, and on a database that several machines share a lock that ends with its connection: after a crash, none is.
 */
import type { Clock } from '../base/clock.ts';
import type { ClockLead } from '../db/clock-lead.ts';
import type { Database } from '../db/open.ts';
import type { KeptAnswersTable } from '../db/schema.ts';
import { hold, release } from '../db/shared.ts';
import { BerthError, ValidationError } from '../base/errors.ts';
import {
  ANSWER_LIFE,
  insertKept,
  keptAt,
  type Place,
  placeOf,
  removalOf,
  requireRoom,
} from '../history/stored-responses.ts';
import type { Log } from '../base/log.ts';
import { apiKeyOf, type Endpoint, type Keep, keepNothing } from './access.ts';
import { readBody } from './body.ts';

const LONGEST = 255;
const PRINTABLE = /^[\x20-\x7e]+$/;

export interface IdempotencyOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly clockLead: ClockLead;
  readonly log: Log;
}

interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Makes endpoints of POST repeatable. One that keeps no answer itself has it kept when it is done. */
export function createRepeatable({ database, clock, clockLead, log }: IdempotencyOptions) {
  /** Whether a request in flight found its answer, once it has looked: then it repeats an earlier one. */
  const inFlight = new Map<string, Promise<boolean>>();
  /** Answers to changes that are undone, while they are still there. */
  const withdrawn = new Set<string>();

  async function isCurrent({ inserted_at }: KeptAnswersTable): Promise<boolean> {
    // A clock that jumps makes nothing old.
    return clock.now() - inserted_at < ANSWER_LIFE || (await clockLead()).now - inserted_at < ANSWER_LIFE;
  }

  async function isWithdrawn(place: Place): Promise<boolean> {
    if (!withdrawn.has(place.id)) return false;
    if (await keptAt(database.reads, place)) return true;
    withdrawn.delete(place.id);
    return false;
  }

  /**
   * The answer to it, or what is kept there and too old.
   * @throws {ValidationError} when the key was used for another request; {BerthError} `in_flight`.
   */
  async function earlier(place: Place): Promise<Response | KeptAnswersTable | undefined> {
    if (await isWithdrawn(place)) throw stillInFlight();
    const row = await keptAt(database.reads, place);
    if (!row || !(await isCurrent(row))) return row;
    if (row.request !== place.request) {
      throw new ValidationError({ idempotency_key: ['was used for another request'] });
    }
    const { headers, ...answer } = JSON.parse(place.open(row.answer)) as Answer;
    return responseOf({ ...answer, headers: [...headers, ['idempotency-replayed', 'true']] });
  }

  async function firstTime(
    place: Place,
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
    const keep: Keep = (render) => ({
      async keep(tx, result) {
        // Another machine was first: this change is not made.
        if (!(await insertKept(tx, rowOf(await answerOf(render(result))), old))) throw stillInFlight();
        isKept = true;
      },
      withdraw() {
        withdrawn.add(place.id);
        return removalOf(place);
      },
    });
    try {
      const response = await perform(keep);
      if (isKept || !response.ok) return response;
      const answer = await answerOf(response);
      await database.db.transaction().execute((tx) => insertKept(tx, rowOf(answer), old));
      return responseOf(answer);
    } catch (error) {
      // Committed, but not applied: the error is the answer, and a repetition applies it again.
      if (isKept && !withdrawn.has(place.id)) await forget(place);
      throw error;
    }
  }

  /** While no other machine does it. */
  async function alone({ id }: Place, work: () => Promise<Response>): Promise<Response> {
    const name = `answer ${id}`;
    if (!(await hold(database.db, name))) throw stillInFlight();
    try {
      return await work();
    } finally {
      // A connection that has ended holds nothing.
      await release(database.db, name).catch(() => undefined);
    }
  }

  async function forget(place: Place): Promise<void> {
    try {
      await database.db.transaction().execute(removalOf(place));
    } catch (error) {
      log.warn({ err: error }, 'the answer to a change that could not be applied yet stays for its repetition');
    }
  }

  return function repeatable(endpoint: Endpoint): Endpoint {
    return async (c, principal) => {
      const { incoming } = c.env;
      const key = incoming.headers['idempotency-key'];
      const apiKey = apiKeyOf(incoming);
      if (key === undefined || apiKey === undefined) return endpoint(c, principal, keepNothing);
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
          if (before instanceof Response) return before;
          await requireRoom(database.reads, principal.accountId);
          return firstTime(place, before, principal.accountId, (keep) => endpoint(c, principal, keep));
        });
      } finally {
        // A request that is refused before that has done nothing, either.
        looked(true);
        await isWithdrawn(place).finally(() => inFlight.delete(place.id));
      }
    };
  };
}

/** @throws {ValidationError} */
function checkedKey(key: string): string {
  const wrong = (message: string) => new ValidationError({ idempotency_key: [message] });
  if (key === '') throw wrong("can't be blank");
  if (key.length > LONGEST) throw wrong(`should be at most ${LONGEST} character(s)`);
  if (!PRINTABLE.test(key)) throw wrong('is invalid');
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

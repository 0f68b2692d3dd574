/**
 * How many requests a minute somebody may make: an account with a valid key by the clock minute (specification,
 * "Limits"), a client network without one by a token bucket. Both count in memory, and both tables are bounded; on a
 * database that several machines share, an account's requests to all of them are counted there.
 */
import { hash, randomBytes } from 'node:crypto';
import type { Background, Loop } from '../base/background.ts';
import { type Clock, SECOND } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import { countRequest, forgetOtherMinutes } from '../db/request-counts.ts';
import { isShared } from '../db/shared.ts';
import { BerthError } from '../base/errors.ts';
import { clientNetwork } from './client-address.ts';

const ROWS = 4;
const CELLS = 65_536;
const MINUTE_MS = 60_000;

export interface RateLimit {
  /** Counts a request. @throws {BerthError} `rate_limited` when it is one too many; that one is not counted. */
  take(who: string): void;
}

/** A limit whose counter may be elsewhere. */
export interface AccountLimit {
  take(accountId: string): void | Promise<void>;
}

/** Requests per account. The table starts over each minute, so it holds only the accounts that called within one. */
export function createRateLimit({ limit, clock }: { limit: number; clock: Clock }): RateLimit {
  const taken = new Map<string, number>();
  let minute = Number.NaN;
  return {
    take(accountId) {
      const current = Math.floor(clock.now() / (60 * SECOND));
      // Any other minute, an earlier one too: a clock that was set back must not lock anybody out.
      if (current !== minute) {
        taken.clear();
        minute = current;
      }
      const count = (taken.get(accountId) ?? 0) + 1;
      if (count > limit) throw tooMany();
      taken.set(accountId, count);
    },
  };
}

export interface SharedLimitOptions {
  readonly limit: number;
  readonly database: Pick<Database, 'reads'>;
  readonly background: Background;
}

/** Requests per account, of all machines that share the database. */
export function createAccountLimit({
  clock,
  ...options
}: SharedLimitOptions & { readonly clock: Clock }): AccountLimit & Pick<Loop, 'close'> {
  if (isShared(options.database.reads)) return createSharedRateLimit(options);
  return { ...createRateLimit({ limit: options.limit, clock }), close: async () => undefined };
}

/** Requests per account to all machines on a shared database. What a crash of the server forgets is one minute. */
export function createSharedRateLimit({
  limit,
  database: { reads },
  background,
}: SharedLimitOptions): AccountLimit & Pick<Loop, 'close'> {
  /** Until when an account over the limit is refused without a query, by the monotonic clock: a flood costs the database nothing. */
  const refused = new Map<string, number>();
  const { close } = background.start('request-counts', { every: MINUTE_MS, atOnce: true }, async () => {
    refused.clear();
    await forgetOtherMinutes(reads);
  });
  return {
    close,
    // Not in turn with this machine's changes, which wait for the disk.
    async take(account) {
      if ((refused.get(account) ?? 0) > performance.now()) throw tooMany();
      const rest = await countRequest(reads, account, limit);
      if (rest === undefined) return;
      refused.set(account, performance.now() + rest / 1000);
      throw tooMany();
    },
  };
}

/**
 * Requests per network of the client's address: as many as the limit at once, and that many a minute from then on.
 * @param clock a monotonic clock in ms, such as `performance.now`.
 */
export function createAddressLimit(options: { limit: number; clock: () => number }): RateLimit {
  const { take } = createSteadyLimit(options);
  return { take: (address) => take(clientNetwork(address)) };
}

/**
 * Like `createAddressLimit`, for a client that a text identifies.
 *
 * The table has a fixed size and forgets nobody, so a flood of many names pushes no entry out. Each has a
 * cell in each of four rows, at places that a secret chooses, and the emptiest of them counts (a count-min sketch with
 * conservative update: Estan and Varghese, 2002). Others in the same cells matter only when all four are full: with
 * 10,000 over their limit, to one in 2,000.
 * @param clock a monotonic clock in ms, such as `performance.now`.
 */
export function createSteadyLimit({ limit, clock }: { limit: number; clock: () => number }): RateLimit {
  const secret = randomBytes(16).toString('hex');
  /** Until when each cell is spoken for, in ms (the "theoretical arrival time" of ITU-T I.371's GCRA). */
  const spoken = new Float64Array(ROWS * CELLS);
  const each = MINUTE_MS / limit;
  return {
    take(who) {
      const digest = hash('sha256', `${secret} ${who}`, 'buffer');
      const places = Array.from({ length: ROWS }, (_, row) => row * CELLS + digest.readUInt16LE(2 * row));
      const now = clock();
      const least = Math.max(now, Math.min(...places.map((place) => spoken[place] ?? 0)));
      // One ms for rounding.
      if (least + each > now + MINUTE_MS + 1) throw tooMany();
      for (const place of places) spoken[place] = Math.max(spoken[place] ?? 0, least + each);
    },
  };
}

function tooMany(): BerthError {
  return new BerthError('rate_limited', 'Rate limit exceeded');
}

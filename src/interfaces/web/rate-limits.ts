/**
 * Limits requests per minute: for an account with a valid key by the clock minute (specification, "Limits"), and for a client
 * network without one by a token bucket. Both count in memory, in tables of bounded size. If several machines share a database,
 * an account's requests to all of them are counted there.
 */
import { hash, randomBytes } from 'node:crypto';
import type { Background, Loop } from '../../foundation/base/background.ts';
import { type Clock, SECOND } from '../../foundation/base/clock.ts';
import type { Database } from '../../foundation/db/open.ts';
import { countRequest, forgetOtherMinutes } from '../../foundation/db/request-counts.ts';
import { isShared } from '../../foundation/db/shared.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { clientNetwork } from './client-address.ts';

const ROWS = 4;
const CELLS = 65_536;
const MINUTE_MS = 60_000;

export interface RateLimit {
  /** Counts a request. @throws {BerthError} `rate_limited` when it is one too many. It is not counted then. */
  take(who: string): void;
}

/** A limit whose counter may be elsewhere. */
export interface AccountLimit {
  take(accountId: string): void | Promise<void>;
}

/** Limits requests per account. The table is emptied each minute, so it has only the accounts of that minute. */
export function createRateLimit({ limit, clock }: { limit: number; clock: Clock }): RateLimit {
  const taken = new Map<string, number>();
  let minute = Number.NaN;
  return {
    take(accountId) {
      const current = Math.floor(clock.now() / (60 * SECOND));
      // An earlier minute counts as a new one too: a clock that was set back must not lock anybody out.
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

/** Limits requests per account, to all machines that share the database. */
export function createAccountLimit({
  clock,
  ...options
}: SharedLimitOptions & { readonly clock: Clock }): AccountLimit & Pick<Loop, 'close'> {
  if (isShared(options.database.reads)) return createSharedRateLimit(options);
  return { ...createRateLimit({ limit: options.limit, clock }), close: async () => undefined };
}

/** Counts in the shared database. A crash of its server loses at most one minute of counts. */
export function createSharedRateLimit({
  limit,
  database: { reads },
  background,
}: SharedLimitOptions): AccountLimit & Pick<Loop, 'close'> {
  /** Until when an account above the limit is refused without a query (by the monotonic clock), so that a flood costs no queries. */
  const refused = new Map<string, number>();
  const { close } = background.start('request-counts', { every: MINUTE_MS, atOnce: true }, async () => {
    refused.clear();
    await forgetOtherMinutes(reads);
  });
  return {
    close,
    // Outside of the queue for this machine's changes, which wait for the disk.
    async take(account) {
      if ((refused.get(account) ?? 0) > performance.now()) throw tooMany();
      const remaining = await countRequest(reads, account, limit);
      if (remaining === undefined) return;
      refused.set(account, performance.now() + remaining / 1000);
      throw tooMany();
    },
  };
}

/**
 * Limits requests per network of the client's address: `limit` at once, and from then on `limit` per minute.
 * @param clock a monotonic clock in ms, such as `performance.now`.
 */
export function createAddressLimit(options: { limit: number; clock: () => number }): RateLimit {
  const { take } = createSteadyLimit(options);
  return { take: (address) => take(clientNetwork(address)) };
}

/**
 * Like `createAddressLimit`, for clients that are identified by any text.
 *
 * The table has a fixed size, and no entry is ever evicted, so a flood of names cannot push others out. Each name has a cell in
 * each of four rows, chosen by a secret hash, and the lowest of the four counts (a count-min sketch with conservative update:
 * Estan and Varghese, 2002). A client is wrongly refused only if all four of its cells are full: with 10,000 clients above
 * their limit, that happens to one in 2,000.
 * @param clock a monotonic clock in ms, such as `performance.now`.
 */
export function createSteadyLimit({ limit, clock }: { limit: number; clock: () => number }): RateLimit {
  const secret = randomBytes(16).toString('hex');
  /** The time up to which each cell is used, in ms (the "theoretical arrival time" of ITU-T I.371's GCRA). */
  const usedUntil = new Float64Array(ROWS * CELLS);
  const each = MINUTE_MS / limit;
  return {
    take(who) {
      const digest = hash('sha256', `${secret} ${who}`, 'buffer');
      const places = Array.from({ length: ROWS }, (_, row) => row * CELLS + digest.readUInt16LE(2 * row));
      const now = clock();
      const least = Math.max(now, Math.min(...places.map((place) => usedUntil[place] ?? 0)));
      // Plus one ms, for rounding.
      if (least + each > now + MINUTE_MS + 1) throw tooMany();
      for (const place of places) usedUntil[place] = Math.max(usedUntil[place] ?? 0, least + each);
    },
  };
}

function tooMany(): BerthError {
  return new BerthError('rate_limited', 'Rate limit exceeded');
}

/**
 * A token bucket per client network for requests without a valid key: as many as the limit at once, and that many a
 * minute from then on.
 *
 * The table has a fixed size and forgets nobody, so that a flood from many addresses can push no entry out. Each
 * network has a cell in each of four rows, at places that a secret chooses, and the emptiest of them counts (a count-min
 * sketch with conservative update: Estan and Varghese, 2002). Others in the same cells can only matter when all four
 * are full: with 10,000 networks over their limit, to one network in 2,000.
 */
import { hash, randomBytes } from 'node:crypto';
import { BerthError } from '../errors.ts';
import { clientNetwork } from './client-address.ts';

const ROWS = 4;
const CELLS = 65_536;
const MINUTE_MS = 60_000;

export interface AddressLimit {
  /** Counts a request. @throws {BerthError} `rate_limited` when it is one too many; that one is not counted. */
  take(address: string): void;
}

/**
 * @param limit requests per minute and network.
 * @param clock a clock in ms that nobody sets, such as `performance.now`.
 */
export function createAddressLimit({ limit, clock }: { limit: number; clock: () => number }): AddressLimit {
  const secret = randomBytes(16).toString('hex');
  /** Until when each cell is spoken for, in ms (the "theoretical arrival time" of ITU-T I.371's GCRA). */
  const spoken = new Float64Array(ROWS * CELLS);
  const each = MINUTE_MS / limit;

  return {
    take(address) {
      const digest = hash('sha256', `${secret} ${clientNetwork(address)}`, 'buffer');
      const places = Array.from({ length: ROWS }, (_, row) => row * CELLS + digest.readUInt16LE(2 * row));
      const now = clock();
      const least = Math.max(now, Math.min(...places.map((place) => spoken[place] ?? 0)));
      // A ms for what division leaves over.
      if (least + each > now + MINUTE_MS + 1) throw new BerthError('rate_limited', 'Rate limit exceeded');
      for (const place of places) spoken[place] = Math.max(spoken[place] ?? 0, least + each);
    },
  };
}

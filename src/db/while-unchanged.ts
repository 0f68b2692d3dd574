/**
 * Remembers what was worked out from the database for as long as nobody, in this process or another, has committed
 * anything: then it is what asking again would give. One commit forgets all of it.
 */
import type { Awaitable, Reads } from './reads.ts';

export interface WhileUnchanged<T> {
  /** What is remembered under that key, or else what `make` reads; nothing is kept of an `undefined` or a failure. */
  get(key: string, make: () => Awaitable<T | undefined>): Promise<T | undefined>;
}

export interface Bounds<T> {
  /** Beyond this many in all, it starts over. */
  readonly limit: number;
  /** How much of the limit a value takes; 1 unless said otherwise. */
  size?(value: T): number;
}

export function whileUnchanged<T>(
  reads: Pick<Reads, 'version'>,
  { limit, size = () => 1 }: Bounds<T>,
): WhileUnchanged<T> {
  const known = new Map<string, T>();
  let knownAt = Number.NaN;
  let taken = 0;

  function forget(): void {
    known.clear();
    taken = 0;
  }

  return {
    async get(key, make) {
      // The version is read before the rows: a commit in between can only make the memory look older than it is.
      const version = await reads.version();
      if (version !== knownAt) {
        forget();
        knownAt = version;
      }
      const remembered = known.get(key);
      if (remembered !== undefined) return remembered;
      const made = await make();
      if (made === undefined || knownAt !== version) return made;
      const weight = size(made);
      if (weight > limit) return made;
      if (taken + weight > limit) forget();
      known.set(key, made);
      taken += weight;
      return made;
    },
  };
}

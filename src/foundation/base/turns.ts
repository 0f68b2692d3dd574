/**
 * Turns on what directories and receivers share: those with little to do go first, so that one upload does not wait behind
 * another customer's thousands. Those with much to do take turns in what is left, and always get a part.
 */

/** How many things to do are little. */
const LITTLE = 8;

/** How many turns of those with little to do come before one of the others. */
const SHORT_TURNS = 8;

export class Turns<T> {
  readonly #short = new Set<T>();
  readonly #long = new Set<T>();
  #untilLong = SHORT_TURNS;

  /** Waits for a turn, with that much to do. Whoever waits already keeps the place, unless the other line is the right one by now. */
  add(each: T, amount: number): void {
    const [line, other] = amount > LITTLE ? [this.#long, this.#short] : [this.#short, this.#long];
    other.delete(each);
    line.add(each);
  }

  /** Returns whether they have waited. */
  delete(each: T): boolean {
    return this.#short.delete(each) || this.#long.delete(each);
  }

  /** Takes the next one. It has to be added again for another turn. */
  take(): T | undefined {
    const isLong = this.#short.size === 0 || (this.#untilLong === 0 && this.#long.size > 0);
    this.#untilLong = isLong ? SHORT_TURNS : Math.max(0, this.#untilLong - 1);
    const [next] = isLong ? this.#long : this.#short;
    if (next !== undefined) this.delete(next);
    return next;
  }

  get size(): number {
    return this.#short.size + this.#long.size;
  }
}

/** Runs a number of jobs at a time. Their owners take turns. */
export class FairQueue {
  readonly #concurrency: number;
  readonly #turns = new Turns<string>();
  readonly #jobs = new Map<string, (() => Promise<void>)[]>();
  #running = 0;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Runs a job of that owner when it is its turn. Settles like the job. */
  add<T>(owner: string, job: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const jobs = this.#jobs.get(owner) ?? [];
    this.#jobs.set(owner, jobs);
    jobs.push(() => job().then(resolve, reject));
    this.#turns.add(owner, jobs.length);
    this.#next();
    return promise;
  }

  #next(): void {
    if (this.#running >= this.#concurrency) return;
    const owner = this.#turns.take();
    const jobs = owner === undefined ? undefined : this.#jobs.get(owner);
    const job = jobs?.shift();
    if (owner === undefined || !jobs || !job) return;
    if (jobs.length > 0) this.#turns.add(owner, jobs.length);
    else this.#jobs.delete(owner);
    this.#running += 1;
    void job().finally(() => {
      this.#running -= 1;
      this.#next();
    });
  }
}

/**
 * Random crowds of receivers, good and dead, in simulated time: a due delivery begins as soon as its destination has a slot,
 * a working receiver waits for no other, and paced ones have their turns one after the other.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Destinations, type Verdict } from '../../../src/deliveries/webhooks/destinations.ts';

/** How long an attempt takes, in ms, and how it is judged. */
const KINDS = {
  working: [20, 'quick'],
  refusing: [1, 'silent'],
  silent: [5000, 'silent'],
  slow: [2000, 'slow'],
} as const satisfies Record<string, readonly [number, Verdict]>;
type Kind = keyof typeof KINDS;

const crowd = fc.array(fc.constantFrom<Kind>('working', 'refusing', 'refusing', 'silent', 'slow'), {
  minLength: 1,
  maxLength: 80,
  size: 'max',
});
const upload = fc.record({
  /** Since the one before, in ms. */
  after: fc.integer({ min: 0, max: 400 }),
  receiver: fc.nat(79),
  count: fc.integer({ min: 1, max: 60 }),
  /** Found by a search, which does not say how many are due. */
  isFound: fc.boolean(),
  /** Deleted with their directory before their turn. */
  deleted: fc.nat(3),
  /** The commit that begins it fails the first time. */
  fails: fc.boolean(),
});
type Upload = typeof upload extends fc.Arbitrary<infer T> ? T : never;

class World {
  now = 0;
  readonly destinations = new Destinations(() => this.now);
  readonly kinds: readonly Kind[];
  /** What is due in the outbox, by destination. */
  readonly due = new Map<string, number>();
  readonly busy = new Map<string, number>();
  #ends: { at: number; name: string }[] = [];
  /** Since when each paced one has had something due and a slot free. */
  readonly #waiting = new Map<string, number>();
  readonly #failures = new Map<string, number>();

  constructor(kinds: readonly Kind[]) {
    this.kinds = kinds;
  }

  kindOf(name: string): Kind {
    return this.kinds[Number(name)] ?? 'working';
  }

  upload({ receiver, count, isFound, deleted, fails }: Upload): void {
    const name = String(receiver % this.kinds.length);
    this.due.set(name, (this.due.get(name) ?? 0) + Math.max(0, count - deleted));
    this.destinations.due(name, isFound ? Infinity : count);
    if (!fails) return;
    for (const turn of this.destinations.next()) this.destinations.give(turn.destination, turn.count);
  }

  /** Begins all that may begin now. */
  settle(): void {
    while (this.destinations.readyIn() === 0) {
      const turns = this.destinations.next();
      assert.ok(turns.length > 0, 'the turn was announced');
      for (const turn of turns) {
        const { destination: name, count } = turn;
        const begun = Math.min(count, this.due.get(name) ?? 0);
        this.due.set(name, (this.due.get(name) ?? 0) - begun);
        this.busy.set(name, (this.busy.get(name) ?? 0) + begun);
        for (let i = 0; i < begun; i += 1) this.#ends.push({ at: this.now + KINDS[this.kindOf(name)][0], name });
        this.destinations.began(turn, begun);
        this.#waiting.delete(name);
      }
    }
    this.#check();
  }

  #check(): void {
    const total = [...this.busy.values()].reduce((sum, count) => sum + count, 0);
    assert.ok(total <= 768, `${total} are under way`);
    for (const [name, due] of this.due) {
      const busy = this.busy.get(name) ?? 0;
      const isPaced = (this.#failures.get(name) ?? 0) > 0;
      assert.ok(busy <= (this.kindOf(name) === 'working' ? 32 : 2), `${name} has ${busy}`);
      if (due === 0 || busy >= 2) this.#waiting.delete(name);
      else if (!isPaced) assert.fail(`${due} are due at ${name}, ${this.kindOf(name)}, and ${busy} under way`);
      else if (!this.#waiting.has(name)) this.#waiting.set(name, this.now);
      // Ten begin every 200 ms, half of them of this verdict.
      const longest = 200 * Math.ceil(this.#peers(name) / 5) + 200;
      const waited = this.now - (this.#waiting.get(name) ?? this.now);
      assert.ok(waited <= longest, `${name} has waited for ${waited} ms`);
    }
  }

  /** How many destinations are judged like this one. */
  #peers(name: string): number {
    const verdictOf = (kind: Kind): Verdict => KINDS[kind][1];
    return this.kinds.filter((kind) => verdictOf(kind) === verdictOf(this.kindOf(name))).length;
  }

  /** Lets time pass to the next thing that happens, `until` at the latest. */
  pass(until: number): void {
    const nextEnd = Math.min(...this.#ends.map(({ at }) => at));
    this.now = Math.min(until, nextEnd, this.now + this.destinations.readyIn());
    const ended = this.#ends.filter(({ at }) => at <= this.now);
    this.#ends = this.#ends.filter(({ at }) => at > this.now);
    for (const { name } of ended) {
      const [, verdict] = KINDS[this.kindOf(name)];
      if (verdict !== 'quick') this.#failures.set(name, (this.#failures.get(name) ?? 0) + 1);
      this.busy.set(name, (this.busy.get(name) ?? 0) - 1);
      this.destinations.judge(name, verdict);
      this.destinations.give(name, 1);
    }
  }

  isOver(): boolean {
    return this.#ends.length === 0 && this.destinations.readyIn() === Infinity;
  }
}

test('due webhooks begin in their turn, and a working receiver waits for no other', () => {
  const story = fc.property(crowd, fc.array(upload, { maxLength: 150, size: 'max' }), (kinds, uploads) => {
    const world = new World(kinds);
    let at = 0;
    for (const each of uploads) {
      at += each.after;
      while (world.now < at) {
        world.settle();
        world.pass(at);
      }
      world.upload(each);
      world.settle();
    }
    while (!world.isOver()) {
      world.pass(Infinity);
      world.settle();
    }
    assert.deepEqual(
      [...world.due].filter(([, due]) => due > 0),
      [],
      'nothing is left behind',
    );
  });
  fc.assert(story, { numRuns: Number(process.env['RUNS'] ?? 100), seed: Number(process.env['SEED'] ?? Date.now()) });
});

/** Turns of destinations, and how many attempts each may have under way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../../support/fast-check.ts';
import { Destinations, type Verdict } from '../../../src/deliveries/webhooks/destinations.ts';

/** Begins all there are turns for; returns how many attempts each destination got. */
function begin(destinations: Destinations): Map<string, number> {
  const begun = new Map<string, number>();
  for (let turns = destinations.next(); turns.length > 0; turns = destinations.next()) {
    for (const turn of turns) {
      destinations.began(turn, turn.count);
      begun.set(turn.destination, (begun.get(turn.destination) ?? 0) + turn.count);
    }
  }
  return begun;
}

function sum(counts: Map<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

function end(destinations: Destinations, name: string, verdict: Verdict): void {
  destinations.judge(name, verdict);
  destinations.give(name, 1);
}

/** One attempt from claim to answer. */
function attempt(destinations: Destinations, name: string, ...verdicts: Verdict[]): void {
  for (const verdict of verdicts) {
    destinations.due(name, 1);
    assert.deepEqual(begin(destinations).get(name), 1);
    end(destinations, name, verdict);
  }
}

/** How many further attempts may begin at this destination now, which has nothing due before and after it. */
function room(destinations: Destinations, name: string): number {
  destinations.due(name, 1000);
  const count = begin(destinations).get(name) ?? 0;
  destinations.give(name, count);
  for (const turn of destinations.next()) destinations.began(turn, 0);
  return count;
}

test('a quick answer opens thirty-two slots to a destination; a slow one ends that, and a second one in a row paces it', () => {
  let now = 0;
  const destinations = new Destinations(() => now);
  assert.equal(room(destinations, 'a'), 2);
  attempt(destinations, 'a', 'quick');
  assert.equal(room(destinations, 'a'), 32);
  attempt(destinations, 'a', 'silent');
  assert.equal(room(destinations, 'a'), 2);
  // The others that are paced have had all of this time's attempts.
  for (let i = 0; i < 10; i += 1) attempt(destinations, `dead-${i}`, 'silent');
  for (let i = 0; i < 10; i += 1) attempt(destinations, `dead-${i}`, 'silent');
  assert.equal(room(destinations, 'a'), 2, 'once is not enough');
  attempt(destinations, 'a', 'silent');
  destinations.due('a', 1);
  assert.equal(begin(destinations).size, 0);
  now += 200;
  assert.equal(begin(destinations).get('a'), 1);
  end(destinations, 'a', 'quick');
  assert.equal(room(destinations, 'a'), 32);
});

test('however many destinations do not answer, proven ones find room', () => {
  const destinations = new Destinations(() => 0);
  attempt(destinations, 'healthy', 'quick');
  for (let i = 0; i < 1000; i += 1) destinations.due(`dead-${i}`, Infinity);
  assert.equal(sum(begin(destinations)), 512);
  assert.equal(destinations.readyIn(), Infinity, 'only an ended answer makes room');
  assert.equal(room(destinations, 'healthy'), 32);
  destinations.due('new', 1);
  assert.equal(begin(destinations).size, 0);
  // One that turns bad with attempts under way takes no room that the proven ones have.
  destinations.due('healthy', 4);
  assert.equal(begin(destinations).get('healthy'), 4);
  destinations.judge('healthy', 'silent');
  destinations.give('healthy', 4);
  destinations.give('dead-0', 2);
  const next = begin(destinations);
  assert.deepEqual(
    [next.get('new'), sum(next)],
    [1, 2],
    'slots that are free go to the next, the first to one with little due',
  );
});

test('paced destinations begin at a bounded pace, in groups, each in its turn', () => {
  let now = 0;
  const destinations = new Destinations(() => now);
  for (let i = 0; i < 30; i += 1) attempt(destinations, `dead-${i}`, 'silent');
  for (let i = 0; i < 30; i += 1) destinations.due(`dead-${i}`, Infinity);
  const groups: string[][] = [];
  for (; groups.length < 6; now += 200) {
    groups.push([...begin(destinations).keys()]);
    assert.equal(destinations.readyIn(), 200);
    now += 50;
    assert.equal(destinations.readyIn(), 150);
    assert.equal(begin(destinations).size, 0);
    now -= 50;
    for (const name of groups.at(-1) ?? []) end(destinations, name, 'silent');
  }
  const names = Array.from({ length: 30 }, (_, i) => `dead-${i}`);
  assert.deepEqual(groups.flat(), [...names, ...names]);
});

test('a slow destination has every other turn of those that are paced', () => {
  let now = 0;
  const destinations = new Destinations(() => now);
  const silent = Array.from({ length: 64 }, (_, i) => `silent-${i}`);
  for (const name of silent) attempt(destinations, name, 'silent');
  attempt(destinations, 'slow', 'slow');
  for (const name of silent) destinations.due(name, Infinity);
  const groups: string[][] = [];
  for (; groups.length < 3; now += 200) {
    destinations.due('slow', groups.length === 0 ? 0 : 1);
    groups.push([...begin(destinations).keys()]);
    for (const name of groups.at(-1) ?? []) end(destinations, name, name === 'slow' ? 'slow' : 'silent');
  }
  assert.deepEqual(
    groups.map((names) => names.includes('slow')),
    [false, true, true],
  );
  assert.deepEqual(
    groups.flat().filter((name) => name !== 'slow'),
    silent.slice(0, 28),
  );
});

test('the memory of destinations is bounded', () => {
  const destinations = new Destinations(() => 0);
  for (let i = 0; i <= 10_000; i += 1) attempt(destinations, `d-${i}`, 'quick');
  assert.equal(room(destinations, 'd-0'), 2);
  assert.equal(room(destinations, 'd-1'), 32);
});

test('a turn that found fewer than its limit is over until something is due again', () => {
  const destinations = new Destinations(() => 0);
  destinations.due('a', Infinity);
  const [turn] = destinations.next();
  assert.deepEqual(turn, { destination: 'a', count: 2 });
  destinations.began({ destination: 'a', count: 2 }, 1);
  assert.equal(destinations.readyIn(), Infinity);
  destinations.due('a', 1);
  assert.equal(destinations.readyIn(), 0);
});

// Random crowds of receivers, good and dead, in simulated time: a due delivery begins as soon as its destination has
// a slot, a working receiver waits for no other, and paced ones have their turns one after the other.

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
    const total = sum(this.busy);
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
  fc.assert(story, { numRuns: Number(process.env['RUNS'] ?? 100) });
});

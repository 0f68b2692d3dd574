/** Turns of destinations, and how many attempts each may have under way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
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
  assert.equal(begin(destinations).size, 1, 'a slot that is free goes to the next');
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

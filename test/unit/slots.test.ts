/** Who may have how many attempts under way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSlots, type Slots } from '../../src/webhooks/slots.ts';

/** One attempt from claim to answer. */
function attempt(slots: Slots, destination: string, quick: boolean): void {
  slots.take(destination, 1);
  slots.give(destination, 1);
  slots.judge(destination, quick);
}

/** How many further attempts may begin at this destination now. */
function room(slots: Slots, destination: string): number {
  const count = slots.take(destination, Infinity);
  slots.give(destination, count);
  return count;
}

test('a quick answer opens thirty-two slots to a destination, a slow one ends that', () => {
  const slots = createSlots(() => 0);
  assert.equal(room(slots, 'a'), 2);
  assert.equal(slots.take('a', 1), 1);
  assert.equal(room(slots, 'a'), 1);
  slots.give('a', 1);
  attempt(slots, 'a', true);
  assert.equal(room(slots, 'a'), 32);
  slots.take('a', 31);
  assert.equal(room(slots, 'a'), 1);
  slots.give('a', 31);
  attempt(slots, 'a', false);
  assert.equal(room(slots, 'a'), 2);
});

test('however many destinations do not answer, proven ones find room', () => {
  const slots = createSlots(() => 0);
  attempt(slots, 'healthy', true);
  let held = 0;
  for (let number = 0; number < 1000; number += 1) held += slots.take(`dead-${number}`, Infinity);
  assert.equal(held, 512);
  assert.equal(room(slots, 'new'), 0);
  assert.equal(room(slots, 'healthy'), 32);
  // One that turns bad with attempts under way takes no room that the proven ones have.
  slots.take('healthy', 4);
  slots.judge('healthy', false);
  slots.give('healthy', 4);
  for (let number = 0; number < 256; number += 1) slots.give(`dead-${number}`, 2);
  assert.equal(room(slots, 'new'), 2);
});

test('suspects begin at a bounded pace, together and in groups', () => {
  let now = 0;
  const slots = createSlots(() => now);
  for (let number = 0; number < 30; number += 1) attempt(slots, `dead-${number}`, false);
  let begun = 0;
  for (let number = 0; number < 30; number += 1) begun += slots.take(`dead-${number}`, Infinity);
  assert.equal(begun, 10);
  now = 50;
  assert.equal(slots.heldBackFor(), 150);
  assert.equal(slots.heldBackFor(), undefined);
  now = 190;
  assert.equal(slots.take('dead-29', Infinity), 0);
  now = 200;
  assert.equal(slots.take('dead-29', Infinity), 2);
  assert.equal(slots.take('new', Infinity), 2);
});

test('what is remembered of destinations is bounded', () => {
  const slots = createSlots(() => 0);
  for (let number = 0; number <= 10_000; number += 1) attempt(slots, `d-${number}`, true);
  assert.equal(room(slots, 'd-0'), 2);
  assert.equal(room(slots, 'd-1'), 32);
});

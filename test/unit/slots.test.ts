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

test('quick answers widen a destination to thirty-two at a time, a slow one ends that', () => {
  const slots = createSlots(() => 0);
  const rooms = [slots.room('a')];
  for (let count = 0; count < 5; count += 1) {
    attempt(slots, 'a', true);
    rooms.push(slots.room('a'));
  }
  assert.deepEqual(rooms, [2, 4, 8, 16, 32, 32]);
  slots.take('a', 31);
  assert.equal(slots.room('a'), 1);
  slots.give('a', 31);
  attempt(slots, 'a', false);
  assert.equal(slots.room('a'), 2);
});

test('however many destinations do not answer, proven ones find room', () => {
  const slots = createSlots(() => 0);
  attempt(slots, 'healthy', true);
  let held = 0;
  for (let number = 0; number < 1000; number += 1) {
    const room = slots.room(`dead-${number}`);
    slots.take(`dead-${number}`, room);
    held += room;
  }
  assert.equal(held, 512);
  assert.equal(slots.room('new'), 0);
  assert.equal(slots.room('healthy'), 4);
  // One that turns bad with attempts under way takes no room that the proven ones have.
  slots.take('healthy', 4);
  slots.judge('healthy', false);
  slots.give('healthy', 4);
  for (let number = 0; number < 256; number += 1) slots.give(`dead-${number}`, 2);
  assert.equal(slots.room('new'), 2);
});

test('suspects begin at a bounded pace, together and in groups', () => {
  let now = 0;
  const slots = createSlots(() => now);
  for (let number = 0; number < 30; number += 1) attempt(slots, `dead-${number}`, false);
  let begun = 0;
  for (let number = 0; number < 30; number += 1) {
    const room = slots.room(`dead-${number}`);
    slots.take(`dead-${number}`, room);
    begun += room;
  }
  assert.equal(begun, 20);
  assert.equal(slots.heldBackFor(), 200);
  assert.equal(slots.heldBackFor(), undefined);
  now = 190;
  assert.equal(slots.room('dead-29'), 0);
  now = 200;
  assert.equal(slots.room('dead-29'), 2);
  assert.equal(slots.room('new'), 2);
});

test('what is remembered of destinations is bounded', () => {
  const slots = createSlots(() => 0);
  for (let number = 0; number <= 10_000; number += 1) attempt(slots, `d-${number}`, true);
  assert.equal(slots.room('d-0'), 2);
  assert.equal(slots.room('d-1'), 4);
});

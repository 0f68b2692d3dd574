import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWatched } from '../../src/uploads/watched.ts';

function place(limit: number) {
  const now = new Set<string>();
  const add = (username: string): void => void now.add(username);
  const remove = (username: string): void => void now.delete(username);
  const watched = createWatched({ add, remove, complete: () => true }, limit);
  return { watched, now: () => [...now].sort().join(' ') };
}

test('everybody is watched up to the limit', () => {
  const { watched, now } = place(3);
  watched.begin(3);
  for (const user of ['a', 'b', 'c']) watched.add(user);
  assert.equal(now(), 'a b c');
  assert.equal(watched.complete(), true);
  watched.add('d');
  assert.equal(now(), 'a b c');
  assert.equal(watched.complete(), false);
});

test('above the limit those with the latest sessions are watched', () => {
  const { watched, now } = place(2);
  watched.begin(5);
  for (const user of ['a', 'b', 'c', 'd', 'e']) watched.add(user);
  assert.equal(now(), '');
  for (const user of ['a', 'b', 'a', 'c']) watched.use(user);
  assert.equal(now(), 'a c');
  assert.equal(watched.complete(), false);
});

test('when directories have gone, the next round watches everybody again', () => {
  const { watched, now } = place(2);
  watched.begin(3);
  watched.use('a');
  watched.remove('a');
  watched.begin(2);
  for (const user of ['b', 'c']) watched.add(user);
  assert.equal(now(), 'b c');
  assert.equal(watched.complete(), true);
});

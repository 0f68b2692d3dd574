/** The states of pending work: what may follow what. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agenda } from '../../../../src/arrivals/uploads/story/agenda.ts';
import { Look } from '../../../../src/arrivals/uploads/story/jobs.ts';

test('work that is taken or over is not taken again', () => {
  const look = new Look('a', 0, false);
  look.become('taken');
  assert.throws(() => look.become('taken'), /taken cannot become taken/);
  look.become('over');
  assert.throws(() => look.become('ready'), /over cannot become ready/);
});

test('a look that is requested while it is under way comes again once it is over', () => {
  const agenda = new Agenda();
  agenda.look('a', 5);
  const [look] = agenda.takeLooks(1, 5);
  assert.ok(look);
  agenda.look('a', 9, true);
  assert.deepEqual(agenda.takeLooks(1, 9), []);
  agenda.settled(look, 7);
  assert.deepEqual(
    agenda.takeLooks(1, 7).map(({ path, due }) => [path, due]),
    [['a', 7]],
  );
});

test('a look that is requested for later, too, is repeated then', () => {
  const agenda = new Agenda();
  agenda.look('a', 9);
  agenda.look('a', 5);
  const [look] = agenda.takeLooks(1, 5);
  assert.ok(look);
  agenda.settled(look, 6);
  assert.equal(agenda.nextLook(), 9);
});

test('work counts how often it has waited', () => {
  const agenda = new Agenda();
  const task = agenda.add({ kind: 'remove', path: 'a', by: undefined, at: 1 });
  for (let time = 0; time < 3; time += 1) {
    assert.deepEqual(agenda.takeTasks(1), [task]);
    task.become('waiting');
    assert.deepEqual(agenda.takeTasks(1), []);
    task.become('ready');
  }
  assert.equal(task.waits, 3);
});

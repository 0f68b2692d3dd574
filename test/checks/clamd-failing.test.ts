/** A checker that is down, slow or broken: files wait, but only those of the affected customer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { type TestDirectory, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { onDatabase } from '../support/users.ts';
import { type Asked, checkedScratch, checkPlace, fakeClamd, quarantineOf, questions } from './check-place.ts';

test('while there is no checker files wait, and are checked when it is there', async () => {
  const { place, socket } = checkedScratch();
  using _ = place;
  await using at = await checkPlace(place);
  const { berth } = at;
  await at.put('report', 'patience');
  await at.untilHeld('it waits, and the list says why', ([file]) =>
    /^the checker cannot be reached: .*ENOENT/.test(file?.reason ?? ''),
  );
  await using clamd = await fakeClamd(socket);
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'report');
  assert.equal(clamd.asked.length, 1);
});

test('with BERTH_CHECK_UNAVAILABLE=pass unchecked files are announced, and rejected ones still are not', async () => {
  const { place, socket } = checkedScratch({ BERTH_CHECK_UNAVAILABLE: 'pass' });
  using _ = place;
  await using at = await checkPlace(place);
  const { berth } = at;
  await at.put('first', 'a bad one');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'first');
  await using _clamd = await fakeClamd(socket);
  await at.put('second', 'a bad one');
  await until('it is rejected', async () => quarantineOf(at).length === 1);
  assert.equal(berth.receiver.requests.length, 1);
});

for (const [how, [reason, misbehave]] of Object.entries<readonly [string, (asked: Asked) => void]>({
  hangs: ['no answer within 2 s', () => undefined],
  dies: ['the checker ended the connection without an answer', (asked) => void asked.socket.destroy()],
  'says nonsense': ['clamd said "it is raining"', ({ answer }) => answer('it is raining')],
  'says the stream is too long': [
    "the file is larger than clamd's StreamMaxLength",
    ({ answer }) => answer('INSTREAM size limit exceeded. ERROR'),
  ],
})) {
  test(`a checker that ${how} on one file delays only that file, which is tried again`, async () => {
    const { place, socket } = checkedScratch({ BERTH_CHECK_SECONDS: '2', BERTH_LOG_LEVEL: 'silent' });
    using _ = place;
    let isWell = false;
    await using clamd = await fakeClamd(socket, (asked) => {
      if (asked.content.includes('odd') && !isWell) misbehave(asked);
      else asked.answer('stream: OK');
    });
    await using at = await checkPlace(place);
    const { berth } = at;
    const other = await berth.directory();
    await at.put('odd', 'an odd one');
    await at.put('other', 'of another customer', other);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'other');
    // And those behind it, of the same directory.
    await at.put('next', 'an even one');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'next');
    assert.ok((await at.states()).includes('odd checking'));
    await at.untilHeld('the list says why', ([file]) => file?.state === 'checking' && file.reason === reason);
    isWell = true;
    await berth.stop();
    await berth.start();
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'odd');
    assert.equal(clamd.asked.filter((content) => content.includes('odd')).length >= 2, true);
  });
}

test('two accounts whose files all hang leave a place for others', async () => {
  const { place, socket } = checkedScratch({ BERTH_LOG_LEVEL: 'silent' });
  using _ = place;
  const { decide, waiting } = questions();
  await using clamd = await fakeClamd(socket, (asked) => {
    if (asked.content.includes('slow')) decide(asked);
    else asked.answer('stream: OK');
  });
  await using at = await checkPlace(place);
  const { berth, directory: other } = at;
  const slow: TestDirectory[] = [];
  for (let count = 0; count < 12; count += 1) slow.push(await berth.directory());
  await onDatabase(berth, async (database) => {
    const issuer = { database, clock: systemClock() };
    for (const own of [slow.slice(0, 6), slow.slice(6)]) {
      const { id: account_id } = await createAccount(issuer, { name: 'Slow', plan: 'business' });
      const ids = own.map(({ id }) => id);
      await database.db.updateTable('directories').set({ account_id }).where('id', 'in', ids).execute();
    }
  });
  for (const each of slow) await at.put('slow', 'a slow one', each);
  await until('all places but one are taken', async () => waiting.length === 7);
  for (const name of ['one', 'two', 'three']) {
    await at.put(name, 'a quick one', other);
    assert.equal(webhookOf(await berth.receiver.next()).filename, name);
  }
  assert.equal(waiting.length, 7);
  for (let answered = 0; answered < 12; answered += 1) {
    await until('one is asked about', async () => waiting.length > 0);
    waiting.shift()?.answer('stream: OK');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'slow');
  }
  assert.equal(clamd.asked.length, 15);
});

test('after a restart, checks continue, and each file is checked once', async () => {
  const { place, socket } = checkedScratch();
  using _ = place;
  await using at = await checkPlace(place);
  await at.put('one', 'one');
  await at.untilHeld('it waits', (held) => held.length === 1);
  const { berth } = at;
  await berth.stop();
  await using clamd = await fakeClamd(socket);
  await berth.start();
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'one');
  assert.equal(clamd.asked.length, 1);
});

test('files larger than BERTH_CHECK_MAX_MIB are not streamed, and wait', async () => {
  const { place, socket } = checkedScratch({ BERTH_CHECK_MAX_MIB: '1', BERTH_LOG_LEVEL: 'silent' });
  using _ = place;
  await using clamd = await fakeClamd(socket);
  await using at = await checkPlace(place);
  await at.put('large', Buffer.alloc(1024 * 1024 + 1));
  await at.put('small', Buffer.alloc(1024 * 1024));
  assert.equal(webhookOf(await at.berth.receiver.next()).filename, 'small');
  assert.equal(clamd.asked.length, 1);
  assert.deepEqual(await at.states(), ['large checking', 'small uploaded']);
  const reason = 'the file is larger than BERTH_CHECK_MAX_MIB';
  await at.untilHeld('the list says why', ([file]) => file?.reason === reason);
  assert.match((await at.run('list')).stdout, new RegExp(`checking .* large +${reason}`));
  // An overwritten file counts as another one, which has not been tried yet.
  await at.put('large', 'small now');
  assert.equal(webhookOf(await at.berth.receiver.next()).filename, 'large');
  assert.deepEqual(await at.held(), []);
});

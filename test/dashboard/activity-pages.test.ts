/** The history page by page: each entry once and in order, even among entries of the same moment, and by an index. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import {
  type ActivityPage,
  activityPage,
  type ActivityPlace,
  type Topic,
} from '../../src/operating/reports/activity.ts';
import { sentenceOf } from '../../src/rules/history/sentences.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';

const shared = sharedHosted();

const DAYS = 86_400_000_000;

/** Adds events at few moments, so that many share one. Returns how many there are of each topic. */
async function happen(api: Api, directory: { id: string; sftp_username: string }, start: number, seed: number) {
  const { db } = api.database;
  const { accountId } = api.tenant;
  const at = (index: number): number => start + ((index * (seed + 7)) % 11) * 1000;
  const whose = { directory_id: directory.id, account_id: accountId, username: directory.sftp_username };
  await db.transaction().execute(async (tx) => {
    await insertTransfers(
      tx,
      Array.from({ length: 40 }, (_, index) =>
        index % 3 === 0
          ? { ...whose, at: at(index), event: 'session-opened' as const }
          : { ...whose, at: at(index), event: 'uploaded' as const, path: `file-${index}`, bytes: index },
      ),
    );
    for (let index = 0; index < 25; index += 1) {
      const rest = { key_id: 'user:x', request_id: `r${index}`, route: 'POST /x', changes: `{"field_${index}":{}}` };
      await tx
        .insertInto('audit')
        .values({ ...whose, ...rest, at: at(index), action: 'update' })
        .execute();
    }
  });
  return at;
}

test('all pages together are exactly what happened, each once and in order, for each topic and size of page', async () => {
  const api = await shared();
  const directory = await api.directory();
  await api.database.db.deleteFrom('audit').where('account_id', '=', api.tenant.accountId).execute();
  const start = Date.now() * 1000 - DAYS;
  const at = await happen(api, directory, start, 1);
  await happen(api, await api.directory(), start, 2);
  const attempts = Array.from({ length: 30 }, (_, index) => ({
    at: at(index),
    kind: 'refused' as const,
    address: '127.0.0.1',
    text: `wrong password ${index}`,
  }));
  const whose = { directory_id: directory.id, username: directory.sftp_username };
  // Those of one moment have become rows since the log was read.
  const moment = start + 5000;
  const rows = attempts.filter((attempt) => attempt.at <= moment);
  const unwritten = attempts.filter((attempt) => attempt.at >= moment).map((attempt) => ({ ...attempt, ...whose }));
  await api.database.db
    .insertInto('logins')
    .values(rows.map((attempt) => ({ ...attempt, directory_id: directory.id, account_id: api.tenant.accountId })))
    .execute();
  const expected: Record<string, number> = { all: 95, logins: 44, files: 26, changes: 25 };
  for (const limit of [1, 7, 50, 500]) {
    for (const [topic, count] of Object.entries(expected)) {
      const found = [];
      for (let from: ActivityPlace | undefined = { at: start + DAYS, skip: 0 }; from;) {
        const page: ActivityPage = await activityPage(api.database.reads, {
          accountId: api.tenant.accountId,
          directoryId: directory.id,
          unwritten,
          topic: topic === 'all' ? undefined : (topic as Topic),
          from,
          limit,
        });
        assert.ok(page.entries.length <= limit);
        found.push(...page.entries);
        from = page.next;
      }
      const name = `${topic}, ${limit} a page`;
      assert.equal(found.length, count, name);
      const times = found.map((each) => each.at);
      assert.deepEqual(
        times,
        times.toSorted((a, b) => b - a),
        name,
      );
      const texts = found.filter(({ kind }) => kind !== 'session').map((each) => sentenceOf(each));
      assert.equal(new Set(texts).size, texts.length, name);
    }
  }
});

test('the account’s history has every directory’s, and no other account’s', async () => {
  const api = await shared();
  const [one, two] = [await api.directory(), await api.directory()];
  const start = Date.now() * 1000 - 3 * DAYS;
  const other = { accountId: '00000000-0000-4000-8000-00000000000f' };
  await happen(api, one, start, 1);
  await happen(api, two, start, 2);
  const idsOf = async (accountId: string): Promise<Set<string>> => {
    const ids = new Set<string>();
    for (let from: ActivityPlace | undefined = { at: start + DAYS, skip: 0 }; from;) {
      const page: ActivityPage = await activityPage(api.database.reads, { accountId, unwritten: [], from, limit: 50 });
      for (const { directoryId } of page.entries) ids.add(directoryId);
      from = page.next;
    }
    return ids;
  };
  const found = await idsOf(api.tenant.accountId);
  assert.ok(found.has(one.id) && found.has(two.id));
  assert.equal((await idsOf(other.accountId)).size, 0);
});

test('a search finds a file, a person and an address, whatever the case, past what one step reads', async () => {
  const api = await shared();
  const { id, sftp_username: username } = await api.directory();
  const { db, reads } = api.database;
  const { accountId } = api.tenant;
  const start = Date.now() * 1000 - 2 * DAYS;
  const whose = { directory_id: id, account_id: accountId, username };
  const row = { ...whose, event: 'uploaded' as const, bytes: 1, address: '198.51.100.7', session_pid: 7 };
  await db.transaction().execute(async (tx) => {
    await insertTransfers(tx, [{ ...row, at: start, path: 'in/Quarter "3".csv', address: '203.0.113.9' }]);
    for (let n = 0; n < 42; n += 1)
      await insertTransfers(
        tx,
        Array.from({ length: 500 }, (_, index) => ({ ...row, at: start + n * 500 + index + 1, path: `x-${index}` })),
      );
    await tx
      .insertInto('audit')
      .values({
        ...whose,
        at: start - 5,
        action: 'remove-file',
        key_id: 'user:Dana@example.com',
        request_id: 'r',
        route: 'POST /x',
        changes: JSON.stringify({ file: { from: 'in/gone.pdf', to: null } }),
      })
      .execute();
    // The history has the removal too, at the same moment: it is shown once.
    await insertTransfers(tx, [{ ...whose, event: 'removed', at: start - 5, path: 'in/gone.pdf', bytes: 3 }]);
    await insertTransfers(tx, [
      { ...whose, event: 'removed', at: start - 6, path: 'old.csv', bytes: 3, reason: 'retention (30 days)' },
      {
        ...whose,
        event: 'removed',
        at: start - 7,
        path: 'old-2.csv',
        bytes: 3,
        address: '203.0.113.7',
        session_pid: 3,
      },
    ]);
  });
  const search = async (text: string, directoryId?: string) => {
    const from = { at: start + DAYS, skip: 0 };
    const page = await activityPage(reads, { accountId, directoryId, unwritten: [], search: text, from, limit: 50 });
    return page.entries.map((each) => sentenceOf(each));
  };
  const uploaded = ['Customer (203.0.113.9) uploaded in/Quarter "3".csv'];
  assert.deepEqual(await search('quarter "3"'), uploaded);
  assert.deepEqual(await search('203.0.113.9', id), uploaded);
  assert.deepEqual(await search('GONE.pdf'), ['Dana@example.com deleted in/gone.pdf']);
  assert.deepEqual(await search('dana@'), ['Dana@example.com deleted in/gone.pdf']);
  assert.deepEqual(await search('OLD'), [
    'Retention (30 days) deleted old.csv',
    'Customer (203.0.113.7) deleted old-2.csv',
  ]);
  assert.deepEqual(await search('%'), []);
});

test('each history is read by its index, and no further than a page', sqliteOnly, async () => {
  const api = await shared();
  const directory = await api.directory();
  const from = { at: Date.now() * 1000 + DAYS, skip: 0 };
  const { accountId } = api.tenant;
  for (const directoryId of [directory.id, undefined])
    for (const [topic, count] of [
      [undefined, 3],
      ['files', 4],
      ['logins', 4],
      ['changes', 2],
    ] as const) {
      const plans = await plansOf(api.database.reads, (reads) =>
        activityPage(reads, { accountId, directoryId, unwritten: [], topic, from, limit: 100 }),
      );
      assert.equal(plans.length, count, `${topic}`);
      for (const plan of plans) {
        const [first = '', ...others] = plan;
        const index = directoryId === undefined ? 'account' : 'directory';
        assert.match(
          first,
          new RegExp(`_by_${index} \\(${index}_id=\\? AND (?:at>\\? AND )?at<\\?\\)`),
          plan.join('\n'),
        );
        assert.doesNotMatch(plan.join('\n'), /TEMP B-TREE|SCAN/);
        for (const line of others.filter((each) => each.includes('audit'))) assert.match(line, /audit_by_directory/);
      }
    }
});

/** The history page by page: each entry once and in order, even among entries of the same moment, and by an index. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import {
  type ActivityPage,
  activityPage,
  type ActivityPlace,
  type Topic,
} from '../../src/operating/reports/activity.ts';
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
      const delivery = {
        id: randomUUID(),
        directory_id: directory.id,
        account_id: accountId,
        upload_id: null,
        url: 'https://x.example',
        destination: `${accountId} https://x.example`,
        body: Buffer.from(`{"filename":"w-${index}"}`),
      };
      const state = { state: 'delivered', attempts: 1, due_at: null, finished_at: at(index), replay_at: null } as const;
      await tx
        .insertInto('deliveries')
        .values({ ...delivery, ...state, replayed_as: null, inserted_at: at(index) })
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
  // Those of one moment have become rows since the log was read.
  const moment = start + 5000;
  const rows = attempts.filter((attempt) => attempt.at <= moment);
  const unwritten = attempts.filter((attempt) => attempt.at >= moment);
  await api.database.db
    .insertInto('logins')
    .values(rows.map((attempt) => ({ ...attempt, directory_id: directory.id })))
    .execute();
  const expected: Record<string, number> = { all: 120, logins: 44, files: 26, webhooks: 25, changes: 25 };
  for (const limit of [1, 7, 50, 500]) {
    for (const [topic, count] of Object.entries(expected)) {
      const found = [];
      for (let from: ActivityPlace | undefined = { at: start + DAYS, skip: 0 }; from;) {
        const page: ActivityPage = await activityPage(api.database.reads, {
          directoryId: directory.id,
          unwritten,
          topic: topic === 'all' ? undefined : (topic as Topic),
          from,
          limit,
        });
        assert.ok(page.happenings.length <= limit);
        found.push(...page.happenings);
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
      const known = found.filter(({ kind }) => ['file', 'change', 'webhook', 'refused'].includes(kind));
      const texts = known.map(({ text }) => text);
      assert.equal(new Set(texts).size, texts.length, name);
    }
  }
});

test('each history is read by its index, and no further than a page', sqliteOnly, async () => {
  const api = await shared();
  const directory = await api.directory();
  const from = { at: Date.now() * 1000 + DAYS, skip: 0 };
  for (const topic of [undefined, 'files', 'webhooks', 'changes'] as const) {
    const plans = await plansOf(api.database.reads, (reads) =>
      activityPage(reads, { directoryId: directory.id, unwritten: [], topic, from, limit: 100 }),
    );
    assert.equal(plans.length, topic === undefined ? 4 : 1);
    for (const plan of plans) {
      assert.match(plan.join('\n'), /_by_directory \(directory_id=\? AND (?:at>\? AND )?\w+<\?\)/);
      assert.doesNotMatch(plan.join('\n'), /TEMP B-TREE|SCAN/);
    }
  }
});

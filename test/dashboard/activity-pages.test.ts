/** The history page by page: each entry once and in order, even among entries of the same moment, and by an index. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import { createActivity, type ActivityPlace, type Topic } from '../../src/operating/reports/activity.ts';
import { journal } from '../../src/operating/reports/journal.ts';
import { type Api, sharedHosted } from '../support/hosted.ts';
import { assertWithin } from '../support/long.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';

const shared = sharedHosted();

const PATH = process.env['PATH'];
const DAYS = 86_400_000_000;

/** Puts a `journalctl` that knows these entries in front of the system's. */
function useJournal({ place }: Api, entries: readonly { at: number; pid: number; message: string }[]): void {
  const folder = join(place.dir, 'bin');
  mkdirSync(folder);
  const lines = entries.map(({ at, pid, message }) =>
    JSON.stringify({ MESSAGE: message, _PID: String(pid), __REALTIME_TIMESTAMP: String(at) }),
  );
  writeFileSync(join(folder, 'entries'), lines.join('\n'));
  writeFileSync(join(folder, 'journalctl'), `#!/bin/sh\ncat ${folder}/entries\n`);
  chmodSync(join(folder, 'journalctl'), 0o755);
  process.env['PATH'] = `${folder}:${PATH}`;
}

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
  useJournal(
    api,
    Array.from({ length: 30 }, (_, index) => ({
      at: at(index),
      pid: 1000 + index,
      message: `Failed password for ${directory.sftp_username} from 127.0.0.1 port ${1000 + index} ssh2`,
    })),
  );
  const activity = createActivity({ reads: api.database.reads, log: journal });
  const expected: Record<string, number> = { all: 120, logins: 44, files: 26, webhooks: 25, changes: 25 };
  for (const limit of [1, 7, 50, 500]) {
    for (const [topic, count] of Object.entries(expected)) {
      const found = [];
      for (let from: ActivityPlace | undefined = { at: start + DAYS, skip: 0 }; from;) {
        const page = await activity({
          directory,
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
      const known = found.filter(({ kind }) => ['file', 'change', 'webhook'].includes(kind));
      const texts = known.map(({ text }) => text);
      assert.equal(new Set(texts).size, texts.length, name);
    }
  }
  process.env['PATH'] = PATH;
});

test('each history is read by its index, and no further than a page', sqliteOnly, async () => {
  const api = await shared();
  const directory = await api.directory();
  process.env['PATH'] = '/nowhere';
  const from = { at: Date.now() * 1000 + DAYS, skip: 0 };
  for (const topic of [undefined, 'files', 'webhooks', 'changes'] as const) {
    const plans = await plansOf(api.database.reads, (reads) =>
      createActivity({ reads, log: journal })({ directory, topic, from, limit: 100 }),
    );
    assert.equal(plans.length, topic === undefined ? 3 : 1);
    for (const plan of plans) {
      assert.match(plan.join('\n'), /_by_directory \(directory_id=\? AND \w+<\?\)/);
      assert.doesNotMatch(plan.join('\n'), /TEMP B-TREE|SCAN/);
    }
  }
  const { missing } = await createActivity({ reads: api.database.reads, log: journal })({ directory, from, limit: 1 });
  assert.equal(missing, 'no log');
  process.env['PATH'] = PATH;
});

test('a journal that does not answer delays a page by a few seconds only, with at most two readers', async () => {
  const api = await shared();
  const directory = await api.directory();
  const folder = join(api.place.dir, 'silent');
  mkdirSync(folder);
  writeFileSync(join(folder, 'journalctl'), '#!/bin/sh\nexec sleep 60\n');
  chmodSync(join(folder, 'journalctl'), 0o755);
  process.env['PATH'] = `${folder}:${PATH}`;
  const activity = createActivity({ reads: api.database.reads, log: journal });
  const from = { at: Date.now() * 1000 + DAYS, skip: 0 };
  const began = performance.now();
  const pages = await Promise.all([1, 2, 3].map(() => activity({ directory, from, limit: 10 })));
  assertWithin(8000, performance.now() - began, 'ms until it gives up');
  assert.deepEqual(
    pages.map(({ missing }) => (missing instanceof Error ? missing.message : missing)),
    ['journalctl took too long', 'journalctl took too long', 'the log is being read for others'],
  );
  assert.equal(pages[0]?.happenings.length, 1, 'what berth knows itself is there');
  process.env['PATH'] = PATH;
});

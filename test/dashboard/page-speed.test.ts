/**
 * The size and time of each page of a large account. The suite has few directories and checks only the size;
 * `DIRECTORIES=2000 UPLOADS=50000` before the command shows the times: of the processor, for the page and the client that
 * asks for it, so that a busy machine does not change them much.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Kysely } from 'kysely';
import { SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf, pathOf } from '../support/directory-page.ts';
import { directoryRow, insertDirectories } from '../support/directory-rows.ts';
import { percentile } from '../support/percentile.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const DIRECTORIES = Number(process.env['DIRECTORIES'] ?? 100);
const UPLOADS = Number(process.env['UPLOADS'] ?? 1000);
const IS_MEASURED = process.env['UPLOADS'] !== undefined;
const ROUNDS = 15;
const WEIGHT = 60_000;
const TIME_MS = 20;
const BATCH = 500;

const shared = sharedDashboard();

/** Half of the uploads are in the first directory; each has a delivery, of which some have failed or are tests. */
async function fill(db: Kysely<Tables>, accountId: string, ids: readonly string[], now: number): Promise<string> {
  const to = {
    account_id: accountId,
    url: 'https://example.com/hook',
    destination: `${accountId} https://example.com`,
  };
  let failed = '';
  for (let start = 0; start < UPLOADS; start += BATCH)
    await db.transaction().execute(async (tx) => {
      const uploads = Array.from({ length: Math.min(BATCH, UPLOADS - start) }, (_, index) => {
        const n = start + index;
        const directory_id = ids[n % 2 === 0 ? 0 : n % ids.length] ?? '';
        const at = now - (UPLOADS - n) * 10 * SECOND;
        return { id: randomUUID(), n, directory_id, at, path: `in/${n % 40}/an order of ${n}.csv` };
      });
      await tx
        .insertInto('files')
        .values(
          uploads.map(({ id, n, directory_id, at, path }) => ({
            id,
            directory_id,
            path: Buffer.from(path),
            size_bytes: n,
            state: 'uploaded' as const,
            uploaded_at: at,
            inode: n + 1,
            mtime: at,
            source: 'log' as const,
            session_pid: null,
          })),
        )
        .execute();
      await tx
        .insertInto('transfers')
        .values(
          uploads.map(({ n, directory_id, at, path }) => ({
            at,
            event: 'uploaded' as const,
            directory_id,
            account_id: accountId,
            username: 'u',
            address: '192.0.2.1',
            session_pid: null,
            path,
            from_path: null,
            bytes: n,
            began_at: at,
          })),
        )
        .execute();
      const deliveries = uploads.map(({ id, n, directory_id, at, path }) => ({
        ...to,
        id: randomUUID(),
        directory_id,
        upload_id: id,
        attempts: 1,
        inserted_at: at,
        finished_at: at,
        body: Buffer.from(JSON.stringify({ event: 'file.uploaded', filename: path, size_bytes: n })),
        state: n % 50 === 3 ? ('failed' as const) : ('delivered' as const),
        event: n % 500 === 0 ? ('test' as const) : ('file.uploaded' as const),
      }));
      await tx.insertInto('deliveries').values(deliveries).execute();
      await tx
        .insertInto('attempts')
        .values(
          deliveries.map(({ id, inserted_at, state }) => ({
            delivery_id: id,
            number: 1,
            started_at: inserted_at,
            finished_at: inserted_at,
            latency_us: 1500,
            status: state === 'failed' ? 503 : 200,
            error: null,
            response: Buffer.from('ok'),
          })),
        )
        .execute();
      failed =
        deliveries.find(({ state, directory_id }) => state === 'failed' && directory_id === ids[0])?.id ?? failed;
      failed ||= deliveries.find(({ directory_id }) => directory_id === ids[0])?.id ?? '';
    });
  return failed;
}

test('every page of a large account weighs at most 60 KB', { timeout: 600_000 }, async (t) => {
  await using berth = await shared();
  const now = systemClock().now();
  const rows = Array.from({ length: DIRECTORIES }, (_, n) =>
    directoryRow({
      name: `A customer with a rather long name, number ${n}`,
      external_id: `customer-${n}`,
      storage_bytes: n * 7919,
      inserted_at: now - n * SECOND,
      last_upload_at: now - n,
    }),
  );
  const ids = rows.map(({ id }) => id);
  const database = await openDatabase(berth.config.database);
  await insertDirectories(database.db, berth.accountId, rows);
  const delivery = await fill(database.db, berth.accountId, ids, now);
  // The files are not there: while it is measured, berth would look for them, and remove their rows.
  const node = IS_MEASURED ? 'elsewhere' : berth.config.node;
  await database.db.updateTable('directories').set({ node }).where('id', 'in', ids).execute();
  await database.db
    .updateTable('directories')
    .set({ webhook_url: 'https://example.com/hook' })
    .where('id', 'in', ids.slice(0, 50))
    .execute();
  await database.close();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  const busy = pathOf({ id: ids[0] ?? '' });
  const pages = [
    ...['', '/directories', '/directories?q=number+7', '/deliveries', '/deliveries?state=failed'].map(
      (page) => `/dashboard${page}`,
    ),
    ...[
      '/activity',
      '/activity?topic=files',
      '/activity?q=order',
      '/activity?q=nothing+of+it',
      '/find/all?q=order',
      '/api-keys',
      '/team',
      '/account',
      '/profile',
    ].map((page) => `/dashboard${page}`),
    ...['/access', '/files', '/files?folder=', '/files?q=order', ...(IS_MEASURED ? [] : ['/links']), '/webhook'].map(
      (page) => busy + page,
    ),
    ...[`/webhook/deliveries/${delivery}`, '/activity', '/settings'].map((page) => busy + page),
  ];
  for (const page of pages) {
    const times: number[] = [];
    let weight = 0;
    for (let round = 0; round < (IS_MEASURED ? ROUNDS : 1); round += 1) {
      const began = process.cpuUsage();
      const { status, text } = await admin.get(page);
      const { user, system } = process.cpuUsage(began);
      times.push((user + system) / 1000);
      assert.equal(status, 200, page);
      weight = Buffer.byteLength(text);
    }
    const middle = percentile(times, 0.5);
    t.diagnostic(
      `${page.replace(ids[0] ?? '', 'ID')}: ${Math.round(weight / 1000)} KB, ${middle.toFixed(1)} ms of processor time`,
    );
    assert.ok(weight <= WEIGHT, `${page}: ${weight} bytes`);
    if (IS_MEASURED && middle > TIME_MS) t.diagnostic(`over ${TIME_MS} ms: ${page}`);
  }
});

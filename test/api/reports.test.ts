/** The commands that show berth's data: their output, their filters, and what they never show. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import { pruneHistory } from '../../src/rules/history/removal.ts';
import { enqueue } from '../../src/deliveries/webhooks/outbox.ts';
import { runHere } from '../support/command-line.ts';
import { type Hosted, hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';
import { setClock } from '../support/set-clock.ts';

type Row = Record<string, unknown>;

async function json<T = Row[]>(environment: Record<string, string>, ...args: string[]): Promise<T> {
  const { status, stdout, stderr } = await runHere(environment, ...args, '--json');
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as T;
}

/** Adds an upload's webhook to the outbox, with the given outcome. Returns its id. */
async function delivery(api: Hosted, directoryId: string, filename: string, state: 'delivered' | 'failed' | 'queued') {
  const { db } = api.database;
  const now = systemClock().now();
  const directory = await db
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', directoryId)
    .executeTakeFirstOrThrow();
  const webhook_url = 'https://hooks.example.com/T0KEN';
  return db.transaction().execute(async (tx) => {
    await enqueue(tx, {
      directory: { ...directory, webhook_url },
      uploadId: null,
      filename,
      sizeBytes: 1,
      uploadedAt: now,
    });
    const { id } = await tx
      .selectFrom('deliveries')
      .select('id')
      .orderBy('inserted_at', 'desc')
      .executeTakeFirstOrThrow();
    if (state === 'queued') return id;
    const attempts = state === 'failed' ? 4 : 1;
    await tx
      .updateTable('deliveries')
      .set({ state, attempts, due_at: null, finished_at: now })
      .where('id', '=', id)
      .execute();
    await tx
      .insertInto('attempts')
      .values({
        delivery_id: id,
        number: attempts,
        started_at: now,
        finished_at: now,
        status: state === 'failed' ? 503 : 204,
      })
      .execute();
    return id;
  });
}

test('deliveries are shown with the answer of their last attempt; a finished one can be sent again, another cannot', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const { id: directory, sftp_username: username } = await api.directory({ external_id: 'order-1' });
  const change = { directory: { webhook_url: 'https://hooks.example.com/T0KEN' } };
  await api.send('PATCH', `/directories/${directory}`, { json: change });
  await delivery(api, directory, 'good', 'delivered');
  const failed = await delivery(api, directory, 'bad\u001b[31m', 'failed');
  const queued = await delivery(api, directory, 'soon', 'queued');

  const all = await json(place.environment, 'deliveries', '--directory', username);
  assert.deepEqual(
    all.map((row) => [row['filename'], row['state'], row['attempts'], row['status'], row['external_id']]),
    [
      ['good', 'delivered', 1, 204, 'order-1'],
      ['bad\u001b[31m', 'failed', 4, 503, 'order-1'],
      ['soon', 'queued', 0, null, 'order-1'],
    ],
  );
  const only = await runHere(place.environment, 'deliveries', '--failed');
  assert.match(
    only.stdout,
    /^ID +UPLOADED +STATE +ATTEMPTS +ANSWER +DESTINATION +FILE\n\S+ .* 503 +https:\/\/hooks\.example\.com +bad\\u\{1b\}\[31m\n$/,
  );
  assert.ok(!JSON.stringify([all, only]).includes('T0KEN'));

  const again = await json<Row>(place.environment, 'deliveries', '--replay', failed);
  assert.equal(again['replays'], failed);
  const rows = await api.database.db
    .selectFrom('deliveries')
    .selectAll()
    .where('id', 'in', [failed, String(again['id'])])
    .orderBy('inserted_at')
    .execute();
  assert.deepEqual(
    rows.map(({ state, attempts }) => [state, attempts]),
    [
      ['failed', 4],
      ['waiting', 0],
    ],
  );
  assert.deepEqual(rows[0]?.body, rows[1]?.body);
  for (const wrong of [queued, 'nothing']) {
    const { status, stderr } = await runHere(place.environment, 'deliveries', '--replay', wrong);
    assert.equal(status, 1);
    assert.match(stderr, /^berth: [^\n]+\n$/);
  }
});

test('directories and the audit are narrowed by directory, account, key, age and count, and hold no secret', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const first = await api.directory({ name: 'First', external_id: 'order-1' });
  const other = await api.account('business');
  const second = await api.directory({ name: 'Second' }, other.send);
  const webhook_url = 'https://hooks.example.com/T0KEN';
  await api.send('PATCH', `/directories/${first.id}`, { json: { directory: { webhook_url } } });

  const ids = async (...args: string[]): Promise<unknown[]> =>
    (await json(place.environment, 'directories', ...args)).map((row) => row['id']);
  assert.deepEqual(await ids(), [second.id, first.id]);
  assert.deepEqual(await ids('--limit', '1'), [second.id]);
  assert.deepEqual(await ids('--account', api.tenant.accountId), [first.id]);
  await api.database.db
    .updateTable('accounts')
    .set({ name: 'Only One' })
    .where('id', '=', api.tenant.accountId)
    .execute();
  assert.deepEqual(await ids('--account', 'Only One'), [first.id]);
  await api.database.db.updateTable('accounts').set({ name: 'Only One' }).execute();
  const several = await runHere(place.environment, 'directories', '--account', 'Only One');
  assert.match(several.stderr, /^berth: \d+ accounts are called "Only One": name one by its id \(/);
  const { status, stderr } = await runHere(place.environment, 'directories', '--account', 'Acme');
  assert.deepEqual([status, stderr], [1, 'berth: there is no account "Acme": see berth account list\n']);
  assert.deepEqual(await ids('--directory', second.sftp_username), [second.id]);
  assert.deepEqual(await ids('--since', '1h'), [second.id, first.id]);
  assert.deepEqual(await ids('--since', '2126-01-01'), []);

  const changed = await json(place.environment, 'audit', '--key', api.tenant.keyId, '--since', '1h');
  assert.deepEqual(
    changed.map((row) => [row['action'], row['directory_id'], row['key_name']]),
    [
      ['create', first.id, 'test'],
      ['update', first.id, 'test'],
    ],
  );
  const table = (await runHere(place.environment, 'audit', '--directory', first.id)).stdout;
  assert.match(table, /^TIME +ACTION +USERNAME +KEY +REQUEST +CHANGES\n/);
  assert.match(table, / update .* webhook_url: null -> "https:\/\/hooks\.example\.com"\n$/);
  const shown = table + JSON.stringify([changed, await json(place.environment, 'directories')]);
  for (const secret of ['T0KEN', first['sftp_password'], first['webhook_secret'], api.tenant.key]) {
    assert.ok(!shown.includes(String(secret)));
  }
});

test('wrong use has status 2, an unknown directory status 1, and each command has examples', async () => {
  using place = scratch();
  const misuses = [
    ['transfers', '--since', 'yesterday'],
    ['transfers', '--since', '2026-02-29T08:00Z'],
    ['transfers', '--event', 'exploded'],
    ['audit', '--limit', '0'],
  ];
  const commands = ['directories', 'sessions', 'transfers', 'deliveries', 'audit'];
  await Promise.all([
    ...misuses.map(async (args) => assert.equal((await runHere(place.environment, ...args)).status, 2, args.join(' '))),
    ...commands.map(async (name) =>
      assert.match(
        (await runHere(place.environment, name, '--help')).stdout,
        new RegExp(`Examples:\\n {2}berth ${name}`),
      ),
    ),
  ]);
  const { status, stderr } = await runHere(place.environment, 'transfers', '--directory', 'nobody');
  assert.deepEqual([status, stderr], [1, 'berth: there is no directory "nobody": see berth directory list\n']);
});

test('rows older than BERTH_HISTORY_DAYS go, in batches; newer ones and queued deliveries stay', async () => {
  using place = scratch();
  const clock = setClock(systemClock().now());
  await using api = await hosted(place, { clock });
  const { id } = await api.directory();
  const { db } = api.database;
  await delivery(api, id, 'old', 'delivered');
  await delivery(api, id, 'stuck', 'queued');
  await addTransfers(api.database, id, clock.now(), 1200);
  clock.advance(89 * DAY);
  await addTransfers(api.database, id, clock.now(), 3);
  const clockLead = async () => ({ now: clock.now(), lead: 0 });
  const pruning = { ...api.rules, clockLead };
  const { signal } = new AbortController();
  await pruneHistory(pruning, signal);
  const count = async (table: 'transfers' | 'audit' | 'deliveries' | 'attempts'): Promise<number> =>
    (
      await db
        .selectFrom(table)
        .select(({ fn }) => fn.countAll<number>().as('n'))
        .executeTakeFirstOrThrow()
    ).n;
  assert.deepEqual([await count('transfers'), await count('audit'), await count('deliveries')], [1203, 1, 2]);

  clock.advance(DAY + 60 * SECOND);
  await pruneHistory(pruning, signal);
  assert.deepEqual(
    [await count('transfers'), await count('audit'), await count('deliveries'), await count('attempts')],
    [3, 0, 1, 0],
  );
});

async function addTransfers({ db }: Database, directory_id: string, at: number, rows: number): Promise<void> {
  await db.transaction().execute((tx) =>
    insertTransfers(
      tx,
      Array.from({ length: rows }, (_, i) => ({
        at,
        event: 'uploaded' as const,
        directory_id,
        account_id: 'a',
        username: 'u',
        address: '192.0.2.1',
        session_pid: 1,
        path: `f${i}`,
        from_path: null,
        bytes: 1,
        began_at: at,
      })),
    ),
  );
}

/** An account as it looks after a month: what tests and screenshots of the dashboard show. */
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import { DAY, type Micros, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { DeliveryState, Tables } from '../../src/foundation/db/schema.ts';
import { openUserSession } from '../../src/rules/users/sessions.ts';
import { createUser } from '../../src/rules/users/users.ts';
import type { TestBerth, TestDirectory } from './berth.ts';
import { sftp } from './openssh-client.ts';
import { until } from './poll.ts';
import { sftpSession } from './sftp-session.ts';

export const RECEIVER = 'https://hooks.northwind.example/sftp';

const NAMES = ['Wayne statements', 'Umbrella claims', 'Stark manifests', 'Initech payroll', 'Globex orders'];
const FILES = [
  'invoices/2026-11-18.csv',
  'invoices/2026-11-19.csv',
  'invoices/2026-11-20.csv',
  'orders.xml',
  'stock.json',
];

export interface Demo {
  /** The one with files and deliveries. */
  readonly directory: TestDirectory;
  readonly uploadId: string;
  /** Its webhook fails. */
  readonly failing: TestDirectory;
  /** One that was given up, of `failing`. */
  readonly deliveryId: string;
  /** Somebody else, who has not used the link yet. */
  readonly userId: string;
  readonly linkToken: string;
  /** The token of a session of that user in which the code of the second factor is still to come. */
  readonly halfToken: string;
}

export async function fillDemo(berth: TestBerth, dir: string): Promise<Demo> {
  const others: TestDirectory[] = [];
  for (const name of NAMES) others.push(await berth.directory({ name }));
  const [suspended, , , , failing] = others;
  const directory = await berth.directory({
    name: 'Acme invoices',
    external_id: 'cust-1042',
    metadata: { region: 'eu' },
  });
  assert.ok(suspended && failing);
  const { status } = await berth.send('PATCH', `/directories/${suspended.id}/access`, {
    json: { suspended: true },
  });
  assert.equal(status, 200);
  await upload(berth, dir, directory);
  await cutOff(berth, directory);
  const database = await openDatabase(berth.config.database);
  const now = systemClock().now();
  const deliveryId = await database.db.transaction().execute(async (tx) => {
    await tx.updateTable('accounts').set({ name: 'Northwind Logistics' }).where('id', '=', berth.accountId).execute();
    await tx.updateTable('directories').set({ webhook_url: RECEIVER }).execute();
    await tx.updateTable('deliveries').set({ url: RECEIVER }).execute();
    await tx.deleteFrom('daily_totals').where('owner_id', '=', berth.accountId).execute();
    const days = month(berth.accountId, now);
    await tx.insertInto('daily_totals').values(days).execute();
    await addHistory(tx, days, now);
    for (const [index, { id }] of others.entries())
      await tx
        .updateTable('directories')
        .set({ storage_bytes: (index + 1) * 734_003_200 })
        .where('id', '=', id)
        .execute();
    return addFailed(tx, { accountId: berth.accountId, directoryId: failing.id, now });
  });
  const rejected = { size_bytes: 68, inode: 1, mtime: now, reason: 'Eicar-Test-Signature', rejected_at: now };
  const where = { directory_id: failing.id, node: berth.config.node, path: Buffer.from('setup.exe') };
  await database.db
    .insertInto('quarantine')
    .values({ id: randomUUID(), ...where, ...rejected, released_at: null })
    .execute();
  const actor = { accountId: berth.accountId, keyId: 'operator', requestId: 'demo', route: 'demo' };
  const invited = { email: 'robin@northwind.example', role: 'member' };
  const { id: userId, token: linkToken } = await createUser({ database, clock: systemClock() }, actor, invited);
  const halfToken = await database.db
    .transaction()
    .execute((tx) =>
      openUserSession(tx, userId, { now, visit: { address: '192.0.2.7', agent: 'demo' }, awaitsCode: true }),
    );
  await database.close();
  const [newest] = await berth.uploads(directory);
  assert.ok(newest);
  return {
    directory,
    uploadId: newest.id,
    failing,
    deliveryId,
    userId,
    linkToken,
    halfToken,
  };
}

/** Leaves one partial file there, of 4 bytes. */
export async function cutOff(berth: TestBerth, directory: TestDirectory): Promise<void> {
  const connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.write(await session.open('orders.csv', 'w'), 'half');
  const before = await berth.storage(directory);
  connection.drop();
  await until('it is partial', async () => (await berth.storage(directory)) === before + 4);
}

async function upload(berth: TestBerth, dir: string, directory: TestDirectory): Promise<void> {
  const commands = FILES.map((path, index) => {
    const local = join(dir, `demo-${index}`);
    writeFileSync(local, Buffer.alloc((index + 1) * 37_000, 'a,b\n'));
    return `put ${local} ${path}`;
  });
  const { code, output } = await sftp(dir, directory.login, ['mkdir invoices', ...commands]);
  assert.equal(code, 0, output);
  await until('all are announced', () => berth.receiver.requests.length >= FILES.length);
}

/** Storage and refused logins of the same days, the newest first. */
async function addHistory(tx: Kysely<Tables>, days: ReturnType<typeof month>, now: Micros): Promise<void> {
  const more = days.flatMap(({ owner_id, day, count }, ago) => [
    { owner_id, kind: 'storage' as const, day, count: 0, bytes: 10_900_000_000 - ago * 170_000_000 },
    { owner_id, kind: 'refusals' as const, day, count: (count * 7) % 11, bytes: 0 },
  ]);
  await tx.insertInto('daily_totals').values(more).execute();
  await tx.insertInto('login_log').values({ node: '', read_until: now }).execute();
}

function month(accountId: string, now: Micros) {
  const today = now - (now % DAY);
  return Array.from({ length: 30 }, (_, ago) => {
    const day = today - ago * DAY;
    const weekday = (Math.floor(day / DAY) + 4) % 7;
    const spread = createHash('sha256').update(String(ago)).digest().readUInt16BE() / 65_536;
    const count = Math.round((weekday === 0 || weekday === 6 ? 40 : 220) * (0.75 + 0.5 * spread));
    const bytes = Math.round(count * (spread + 1) * 262_144);
    return { owner_id: accountId, kind: 'uploads' as const, day, count, bytes };
  });
}

async function addFailed(
  tx: Kysely<Tables>,
  { accountId, directoryId, now }: { accountId: string; directoryId: string; now: Micros },
): Promise<string> {
  const states: readonly DeliveryState[] = ['failed', 'failed', 'failed', 'delivered'];
  let last = '';
  for (const [ago, state] of states.entries()) {
    last = ago === 0 ? randomUUID() : last;
    const id = ago === 0 ? last : randomUUID();
    const at = now - (ago + 1) * 3600 * SECOND;
    const body = {
      event: 'file.uploaded',
      directory_id: directoryId,
      filename: `orders-${3 - ago}.xml`,
      size_bytes: 48_211,
    };
    const attempts = state === 'failed' ? 4 : 1;
    const to = { directory_id: directoryId, account_id: accountId, url: RECEIVER, destination: RECEIVER };
    await tx
      .insertInto('deliveries')
      .values({ ...to, id, body: Buffer.from(JSON.stringify(body)), state, attempts, inserted_at: at, finished_at: at })
      .execute();
    for (let number = 1; number <= attempts; number += 1)
      await tx
        .insertInto('attempts')
        .values(attempt(id, number, at, state))
        .execute();
  }
  return last;
}

function attempt(delivery: string, number: number, at: Micros, state: DeliveryState) {
  const answer = state === 'failed' ? { status: 503, response: Buffer.from('upstream is down') } : { status: 204 };
  const started_at = at - (5 - number) * 60 * SECOND;
  return {
    delivery_id: delivery,
    number,
    started_at,
    finished_at: started_at + 412_000,
    latency_us: 412_000,
    ...answer,
  };
}

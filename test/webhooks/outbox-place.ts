/** An outbox with a dispatcher that retries fast, for the tests in this folder. Each URL belongs to a directory. */
import { createHash } from 'node:crypto';
import { type Clock, systemClock } from '../../src/foundation/base/clock.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { AttemptsTable, DeliveryRow } from '../../src/foundation/db/schema.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import type { RetryDelays } from '../../src/deliveries/webhooks/outcome.ts';
import { Dispatcher, type DispatcherOptions } from '../../src/deliveries/webhooks/dispatcher.ts';
import { guardedAgents, type ResolveName, resolver } from '../../src/deliveries/webhooks/destination-guard.ts';
import { enqueue, type UploadEvent } from '../../src/deliveries/webhooks/outbox.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { PLAIN } from '../support/directory-rows.ts';
import { copyEmptyDatabase } from '../support/empty-database.ts';
import { until } from '../support/poll.ts';
import { onPostgres } from '../support/postgres.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';

export const SECRET = 'c2VjcmV0IHNlY3JldCBzZWNyZXQ=';

export interface OutboxPlace extends AsyncDisposable {
  readonly database: Database;
  readonly clock: Clock;
  /** Runs a dispatcher until the test ends, or until it is closed. */
  start(observe?: DispatcherOptions['observe']): Dispatcher;
  /** Waits until that dispatcher has claimed what is due now: a webhook that comes after it has been delivered. */
  round(dispatcher: Dispatcher): Promise<void>;
  /** What the dispatchers have logged as errors. */
  readonly errors: readonly string[];
  /** An upload into the directory with that URL, which is made when there is none. */
  event(url: string, changes?: Partial<UploadEvent>): Promise<UploadEvent>;
  /** Enqueues one webhook and returns its delivery's id. */
  put(url: string, changes?: Partial<UploadEvent>): Promise<string>;
  delivery(id: string): Promise<DeliveryRow>;
  attempts(id: string): Promise<AttemptsTable[]>;
  /** Waits until the delivery is in one of these states. */
  until(id: string, ...states: DeliveryRow['state'][]): Promise<DeliveryRow>;
}

export interface PlaceOptions {
  readonly retryDelays?: RetryDelays;
  readonly allow?: readonly string[];
  readonly clock?: Clock;
  /** How receivers' names are resolved; as in the product when left out. */
  readonly resolve?: ResolveName;
}

export async function outboxPlace({
  retryDelays = [0.02, 0.02, 0.02],
  allow = ['127.0.0.0/8'],
  clock = systemClock(),
  resolve = resolver(),
}: PlaceOptions = {}): Promise<OutboxPlace> {
  await using stack = new AsyncDisposableStack();
  const place = stack.use(scratch());
  copyEmptyDatabase({ databaseFile: `${place.dir}/berth.db` });
  const database = await openDatabase(onPostgres ? place.config.database : `${place.dir}/berth.db`, { isEager: true });
  stack.defer(() => database.close());
  const sender = createSender(guardedAgents(allow, resolve), '1.2.3');
  stack.defer(() => sender.close());
  const cleanUp = stack.move();

  const delivery = (id: string): Promise<DeliveryRow> =>
    database.db.selectFrom('deliveries').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const event = async (url: string, changes: Partial<UploadEvent> = {}): Promise<UploadEvent> => {
    await makeDirectory(database, url);
    return {
      directory: directory(url),
      uploadId: null,
      filename: 'orders.csv',
      sizeBytes: 12,
      uploadedAt: clock.now(),
      ...changes,
    };
  };
  async function put(url: string, changes?: Partial<UploadEvent>): Promise<string> {
    const before = await database.db.selectFrom('deliveries').select('id').execute();
    const upload = await event(url, changes);
    await database.db.transaction().execute((tx) => enqueue(tx, upload));
    const known = new Set(before.map(({ id }) => id));
    const rows = await database.db.selectFrom('deliveries').select('id').execute();
    const added = rows.find(({ id }) => !known.has(id));
    if (!added) throw new Error('nothing was enqueued');
    return added.id;
  }
  async function untilIn(id: string, ...states: DeliveryRow['state'][]): Promise<DeliveryRow> {
    let row = await delivery(id);
    await until(`the delivery is ${states.join(' or ')}`, async () => {
      row = await delivery(id);
      return states.includes(row.state);
    });
    return row;
  }
  const errors: string[] = [];
  const log = createLog('error', { write: (line) => void errors.push(line) });
  return {
    database,
    clock,
    event,
    errors,
    start(observe = () => undefined) {
      const dispatcher = new Dispatcher({ database, clock, log, retryDelays, send: sender.send, observe });
      cleanUp.defer(() => dispatcher.close());
      return dispatcher;
    },
    async round(dispatcher) {
      await using last = await receiver();
      const id = await put(last.url);
      dispatcher.wake();
      await untilIn(id, 'delivered');
    },
    put,
    delivery,
    attempts: (id) =>
      database.db.selectFrom('attempts').selectAll().where('delivery_id', '=', id).orderBy('number').execute(),
    until: untilIn,
    [Symbol.asyncDispose]: () => cleanUp.disposeAsync(),
  };
}

export const ACCOUNT = 'account-1';

/** What an event says of it; `event` makes its row. */
export function directory(url: string | null): UploadEvent['directory'] {
  const hex = createHash('sha256').update(String(url)).digest('hex');
  return {
    id: `${hex.slice(0, 8)}-9a1b-4c5d-8e6f-${hex.slice(8, 20)}`,
    account_id: ACCOUNT,
    slug: 'orders',
    external_id: 'order "42"',
    webhook_url: url,
    uses_account_webhook: 1,
  };
}

async function makeDirectory({ db }: Database, url: string): Promise<void> {
  const known = directory(url);
  if (await db.selectFrom('directories').select('id').where('id', '=', known.id).executeTakeFirst()) return;
  const account = { id: ACCOUNT, name: 'Test', plan: 'business', inserted_at: 1 } as const;
  await db
    .insertInto('accounts')
    .values(account)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const { uid, username } = await db
    .insertInto('principals')
    .values({ uid: Number.parseInt(known.id.slice(0, 8), 16), username: known.id })
    .returningAll()
    .executeTakeFirstOrThrow();
  await db
    .insertInto('directories')
    .values({
      ...PLAIN,
      ...known,
      uid,
      sftp_username: username,
      name: 'Orders',
      webhook_secret: SECRET,
      inserted_at: 1,
      updated_at: 1,
    })
    .execute();
}

/** A directory with a real receiver behind the API, for the tests of its deliveries. */
import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import { deliveryFor, replayOf } from '../../src/deliveries/webhooks/outbox.ts';
import type { ApiAnswer } from '../support/api-client.ts';
import { dataOf } from '../support/field-sets.ts';
import type { Api } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { type Receiver, receiver, type ReceiverOptions } from '../support/receiver.ts';

export interface ShownDelivery {
  readonly id: string;
  readonly event: string;
  readonly upload_id: string | null;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly attempts: readonly { at: string; status: number | null; error: string | null; duration_ms: number | null }[];
  readonly next_attempt_at: string | null;
  readonly url: string;
  readonly inserted_at: string;
}

export interface WebhookPlace extends AsyncDisposable {
  readonly api: Api;
  readonly target: Receiver;
  /** The id of the directory whose webhooks go to the target. */
  readonly id: string;
  readonly username: string;
  /** A request about it. */
  ask(method: string, path: string, json?: unknown): Promise<ApiAnswer>;
  deliveries(query?: string): Promise<ShownDelivery[]>;
  /** Waits until a delivery is in that state. */
  until(id: string, state: ShownDelivery['state']): Promise<ShownDelivery>;
  /** A complete upload; returns its id. */
  addFile(path: string): Promise<string>;
  /** A file on the disk whose upload was cut off; returns its id. */
  addPartial(name: string): Promise<string>;
  /** Adds finished deliveries of `count` files, the newest last, and returns their ids. */
  addFinished(count: number, state?: 'delivered' | 'failed'): Promise<string[]>;
  setUrl(webhook_url: string | null): Promise<void>;
}

export async function webhookPlace(api: Api, toReceiver: ReceiverOptions = {}): Promise<WebhookPlace> {
  const target = await receiver(toReceiver);
  const { id, sftp_username: username } = await api.directory();
  const { db } = api.database;
  const setUrl = async (webhook_url: string | null): Promise<void> =>
    void (await api.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url } } }));
  await setUrl(target.url);
  const ask = (method: string, path: string, json?: unknown): Promise<ApiAnswer> =>
    api.send(method, `/directories/${id}${path}`, json === undefined ? {} : { json });
  const deliveries = async (query = ''): Promise<ShownDelivery[]> =>
    dataOf<ShownDelivery[]>(await ask('GET', `/deliveries${query}`));
  return {
    api,
    target,
    id,
    username,
    ask,
    deliveries,
    setUrl,
    async until(delivery, state) {
      let found: ShownDelivery | undefined;
      await until(`the delivery is ${state}`, async () => {
        found = (await deliveries()).find((row) => row.id === delivery && row.state === state);
        return found !== undefined;
      });
      if (!found) throw new Error('it has gone');
      return found;
    },
    async addFile(path) {
      const row = { state: 'uploaded', inode: 1, mtime: 1, source: 'log', session_pid: null } as const;
      const file = { ...row, id: randomUUID(), directory_id: id, path: Buffer.from(path), size_bytes: path.length };
      await db
        .insertInto('files')
        .values({ ...file, uploaded_at: api.rules.clock.now() })
        .execute();
      return file.id;
    },
    async addPartial(name) {
      const root = join(api.place.config.jailDir, username, 'files');
      mkdirSync(root, { recursive: true });
      writeFileSync(join(root, name), 'half');
      const row = { state: 'partial', source: 'log', session_pid: null, uploaded_at: api.rules.clock.now() } as const;
      const file = { ...row, ...fileStat(lstatSync(join(root, name))), id: randomUUID(), directory_id: id };
      await db
        .insertInto('files')
        .values({ ...file, path: Buffer.from(name) })
        .execute();
      return file.id;
    },
    async addFinished(count, state = 'failed') {
      const directory = await db.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
      const ids: string[] = [];
      await db.transaction().execute(async (tx) => {
        for (let i = 0; i < count; i += 1) {
          const at = api.rules.clock.now();
          const file = { directory, uploadId: null, filename: `f${i}`, sizeBytes: i, uploadedAt: at };
          const row = replayOf(deliveryFor(file, target.url), target.url, at);
          const number = state === 'failed' ? 4 : 1;
          const finished = { state, attempts: number, due_at: null, finished_at: at };
          await tx
            .insertInto('deliveries')
            .values({ ...row, ...finished })
            .execute();
          const status = state === 'failed' ? 503 : 204;
          const attempt = { delivery_id: row.id, number, started_at: at, finished_at: at, status, latency_us: 1500 };
          await tx.insertInto('attempts').values(attempt).execute();
          ids.push(row.id);
        }
      });
      return ids;
    },
    [Symbol.asyncDispose]: () => target[Symbol.asyncDispose](),
  };
}

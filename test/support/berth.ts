/**
 * The whole product for one test: a real sshd, the service in this process, a Business account with an admin key, and a
 * webhook receiver that directories point at. `restart` and `stop` leave sshd alone, as in production.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { type Clock, systemClock } from '../../src/foundation/base/clock.ts';
import { confirmClock } from '../../src/foundation/db/clock-lead.ts';
import { createLog, type Log } from '../../src/foundation/base/log.ts';
import { createPasswordHashing } from '../../src/rules/users/passwords.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { type ApiAnswer, apiClient, type ApiClient, type Send } from './api-client.ts';
import { copyEmptyDatabase } from './empty-database.ts';
import { copyCertificate } from './made-certificate.ts';
import { problems } from './openapi.ts';
import { type Receiver, receiver, type ReceiverOptions } from './receiver.ts';
import type { Scratch } from './scratch.ts';
import { connect, type Connection } from './sftp-client.ts';
import { type Sshd, startSshd } from './sshd.ts';

export interface Webhook {
  readonly event: string;
  readonly directory_id: string;
  readonly external_id: string | null;
  readonly filename: string;
  readonly size_bytes: number;
  readonly uploaded_at: string;
  readonly directory: string;
}

/** A directory as its create response showed it, and how to log in. */
export interface TestDirectory {
  readonly id: string;
  readonly username: string;
  readonly password: string;
  readonly secret: string;
  /** Where its files are on this machine. */
  readonly files: string;
  readonly login: { readonly port: number; readonly username: string; readonly password: string };
}

export interface Upload {
  readonly id: string;
  readonly filename: string;
  readonly size_bytes: number;
  readonly uploaded_at: string;
}

export interface TestBerth extends AsyncDisposable {
  readonly place: Scratch;
  readonly config: Config;
  readonly sshd: Sshd;
  readonly receiver: Receiver;
  /** The account, and its admin key. */
  readonly accountId: string;
  readonly key: string;
  /** A request with it. */
  readonly send: Send;
  service(): Service;
  /** The same berth with another account, and a receiver of its own. */
  tenant(options?: ReceiverOptions): Promise<TestBerth>;
  /** Makes a directory whose webhook is the receiver, or that URL. */
  directory(fields?: Record<string, unknown>, webhookUrl?: string): Promise<TestDirectory>;
  uploads(directory: TestDirectory): Promise<Upload[]>;
  storage(directory: TestDirectory): Promise<number>;
  connect(directory: TestDirectory): Promise<Connection>;
  stop(): Promise<void>;
  /** Starts it again, by that clock if one is given, which the operator has confirmed unless it is said otherwise. */
  start(clock?: Clock, options?: { isConfirmed: boolean }): Promise<void>;
}

/** Hashing a dashboard password with berth's own cost takes half a second of a core (test/unit/users/sign-in.test.ts asserts that cost). */
const CHEAP = { ln: 4, r: 8, p: 1 };

export interface BerthOptions {
  readonly receiver?: ReceiverOptions;
  readonly rateLimit?: number;
  readonly unauthenticatedRateLimit?: number;
  readonly sftpAddresses?: readonly string[];
  readonly log?: Log;
}

export async function startBerth(place: Scratch, options: BerthOptions = {}): Promise<TestBerth> {
  await using parts = new AsyncDisposableStack();
  const hook = parts.use(await receiver({ eachOnce: true, ...options.receiver }));
  const sshd = parts.use(await startSshd(place, options.sftpAddresses));
  const config: Config = {
    ...sshd.config,
    webhooks: { ...sshd.config.webhooks, allow: ['127.0.0.0/8', '::1/128'] },
    rateLimit: options.rateLimit ?? 1e6,
    unauthenticatedRateLimit: options.unauthenticatedRateLimit ?? 1e6,
  };
  const { log = createLog(config.logLevel) } = options;
  const hashing = createPasswordHashing(CHEAP);
  copyEmptyDatabase(config);
  copyCertificate(config.tls);
  let service: Service | undefined = await startService(config, { log, hashing });
  parts.defer(() => service?.close());

  const { key, accountId } = await issueAccount(config);

  const running = (): Service => {
    if (!service) throw new Error('berth is stopped');
    return service;
  };
  let client: ApiClient | undefined;
  parts.defer(() => client?.[Symbol.dispose]());
  const clientNow = (): ApiClient =>
    (client ??= apiClient({ port: running().port, ca: readFileSync(config.tls.cert), key }));

  const owned = parts.move();
  const shared = {
    place,
    config,
    sshd,
    service: running,
    connect: ({ login }: TestDirectory) => connect(login),
    async stop() {
      client?.[Symbol.dispose]();
      client = undefined;
      await service?.close();
      service = undefined;
    },
    async start(given?: Clock, { isConfirmed } = { isConfirmed: true }) {
      const clock = given ?? systemClock();
      if (given && isConfirmed) await confirm(config, given);
      service = await startService(config, { log, clock, hashing });
    },
    async tenant(ofReceiver: ReceiverOptions = {}) {
      const own = await receiver({ eachOnce: true, ...ofReceiver });
      const tenant = { ...(await issueAccount(config)), receiver: own };
      const disposing = { [Symbol.asyncDispose]: () => own[Symbol.asyncDispose]() };
      return { ...shared, ...ofTenant(tenant, clientNow, shared), ...disposing };
    },
  };
  const first = ofTenant({ key, accountId, receiver: hook }, clientNow, shared);
  return { ...shared, ...first, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** What a tenant of that berth asks its API. */
function ofTenant(
  { key, accountId, receiver: hook }: Pick<TestBerth, 'key' | 'accountId' | 'receiver'>,
  client: () => ApiClient,
  { config, sshd }: Pick<TestBerth, 'config' | 'sshd'>,
): Pick<TestBerth, 'key' | 'accountId' | 'receiver' | 'send' | 'directory' | 'uploads' | 'storage'> {
  const send: Send = async (...request) => client().as(key)(...request);
  const data = async <T>(asked: Promise<ApiAnswer>): Promise<T> => {
    const { status, json, text } = await asked;
    if (status >= 300) throw new Error(`the API answered ${status}: ${text}`);
    return (json as { data: T }).data;
  };
  return {
    key,
    accountId,
    receiver: hook,
    send,
    async directory(fields = {}, webhookUrl = hook.url) {
      const created = await data<Record<string, string>>(
        send('POST', '/directories', { json: { directory: { name: 'Acme', ...fields } } }),
      );
      const {
        id = '',
        sftp_username: username = '',
        sftp_password: password = '',
        webhook_secret: secret = '',
      } = created;
      await data(send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: webhookUrl } } }));
      const files = `${config.jailDir}/${username}/files`;
      return { id, username, password, secret, files, login: { port: sshd.port, username, password } };
    },
    uploads: ({ id }) => data<Upload[]>(send('GET', `/directories/${id}/uploads`)),
    storage: async ({ id }) => (await data<{ storage_bytes: number }>(send('GET', `/directories/${id}`))).storage_bytes,
  };
}

/** What `berth clock confirm` does, by that clock. */
export async function confirm(config: Config, clock: Clock): Promise<void> {
  const database = await openDatabase(config.database);
  await confirmClock({ database, clock });
  await database.close();
}

/** The events of a directory's history, oldest first, by a query: a command is a process. */
export async function historyOf({ config }: TestBerth, { id }: TestDirectory): Promise<string[]> {
  const database = await openDatabase(config.database);
  const rows = await database.db
    .selectFrom('transfers')
    .select('event')
    .where('directory_id', '=', id)
    .orderBy('id')
    .execute();
  await database.close();
  return rows.map(({ event }) => event);
}

/**
 * Waits until a file that was written before would have been found at rest, and announced: one that another customer's
 * administrator writes now has been.
 */
export async function afterLatecomers(berth: TestBerth): Promise<void> {
  await using other = await berth.tenant();
  const { files } = await other.directory();
  writeFileSync(join(files, 'written-later'), 'x');
  await other.receiver.next();
}

const WEBHOOK = 'components/pathItems/fileUploaded/post/requestBody/content/application~1json/schema';

/** The webhook that a request carried, checked against openapi.json. */
export function webhookOf(request: { readonly body: Buffer }): Webhook {
  const body = JSON.parse(request.body.toString()) as Webhook;
  assert.deepEqual(problems(WEBHOOK, body), []);
  return body;
}

/** An admin key of a new account on the Business plan. */
export async function issueKey(config: Config): Promise<string> {
  return (await issueAccount(config)).key;
}

async function issueAccount(config: Config): Promise<{ key: string; accountId: string }> {
  copyEmptyDatabase(config);
  const database = await openDatabase(config.database);
  const issuer = { database, clock: systemClock(), config };
  const account = await createAccount(issuer, { name: 'Test', plan: 'business' });
  const { key } = await createKey(issuer, { accountId: account.id }, { role: 'admin', name: 'test' });
  await database.close();
  return { key, accountId: account.id };
}

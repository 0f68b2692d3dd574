/** The API on a real HTTPS port and a real SQLite file, as the service starts it, with a machine that records; no sshd. */
import { mkdirSync, readFileSync } from 'node:fs';
import { after } from 'node:test';
import type { Kysely, Selectable } from 'kysely';
import { directoryFiles } from '../../src/arrivals/files/directory-files.ts';
import { createFileChanges } from '../../src/arrivals/uploads/file-changes.ts';
import { uploadList } from '../../src/arrivals/uploads/upload-list.ts';
import { addressRule } from '../../src/deliveries/webhooks/address-rule.ts';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { startWebhooks } from '../../src/deliveries/webhooks/start.ts';
import { routesOf, startApi } from '../../src/interfaces/http/app.ts';
import { loadTlsPair } from '../../src/interfaces/http/certificate.ts';
import type { HealthCheck } from '../../src/interfaces/http/health.ts';
import { type HttpServer, startHttpServer, type Waits } from '../../src/interfaces/http/server.ts';
import { type AppContext, createWeb } from '../../src/interfaces/web/context.ts';
import type { AnsweredRequest } from '../../src/interfaces/web/observe.ts';
import { createAddressLimit, createRateLimit } from '../../src/interfaces/web/rate-limits.ts';
import { slots } from '../../src/interfaces/web/concurrency.ts';
import { type Clock, systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { version } from '../../src/foundation/base/version.ts';
import { createGround } from '../../src/foundation/context.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { AuditTable, Plan, Role, Tables } from '../../src/foundation/db/schema.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { publicHostKeys } from '../../src/machine/sftp/public-host-keys.ts';
import { liveSessionsOf } from '../../src/machine/sftp/sessions.ts';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { onlyHome } from '../../src/rules/directories/host.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import type { RuleContext } from '../../src/rules/directories/target.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { createAuthenticate } from '../../src/rules/api-keys/authenticate.ts';
import type { LastUsed } from '../../src/rules/api-keys/last-used.ts';
import { apiClient, type ApiClient, type Send } from './api-client.ts';
import { copyEmptyDatabase } from './empty-database.ts';
import { copyCertificate } from './made-certificate.ts';
import { recordingHost, type RecordingHost } from './recording-host.ts';
import { type Scratch, scratch } from './scratch.ts';
import { filesContext } from './files-context.ts';

export interface HostedOptions {
  readonly clock?: Clock;
  readonly rateLimit?: number;
  /** Requests without a valid key per address and minute, by a clock in ms that nobody sets. */
  readonly unauthenticated?: { readonly limit: number; readonly clock?: () => number };
  readonly trustedProxies?: readonly string[];
  readonly tls?: 'on' | 'proxy';
  readonly waits?: Waits;
  /** How long a client that does not read a long list keeps its turn, in ms. */
  readonly stalledMs?: number;
  /** Files that go out to one account at once. */
  readonly downloads?: number;
  /** Whether webhooks are sent: with short waits, and to this machine too. */
  readonly dispatches?: boolean;
  /** Whether a session holds that inode of a directory open for writing. */
  readonly isHeld?: (directoryId: string, inode: number) => Promise<boolean>;
  /** Awaited before a file is removed, once it is out of its directory. */
  readonly caughtUp?: () => Promise<void>;
  readonly checkHealth?: HealthCheck;
  /** Stands between authentication and the database. */
  readonly authenticationReads?: (reads: Kysely<Tables>) => Kysely<Tables>;
}

interface Tenant {
  readonly accountId: string;
  readonly key: string;
  readonly keyId: string;
  readonly send: Send;
}

/** An API, an account on the Business plan with an admin key, and a client with that key. */
export interface Api {
  readonly place: Scratch;
  readonly port: number;
  readonly ca: Buffer;
  readonly server: HttpServer;
  /** The API's routes that need a key, as hono writes them: `GET /api/v1/directories/:id`. */
  readonly routes: readonly string[];
  readonly database: Database;
  readonly rules: RuleContext;
  readonly host: RecordingHost;
  readonly lastUsed: LastUsed;
  readonly log: string[];
  /** The lines that each request gets. */
  readonly requestLines: readonly string[];
  /** The lines of the log that report a failure. */
  errors(): string[];
  /** The requests that the observer has seen. */
  readonly requests: readonly AnsweredRequest[];
  readonly client: ApiClient;
  readonly send: Send;
  readonly tenant: Tenant;
  /** One more account with one more key. */
  account(plan: Plan, role?: Role): Promise<Tenant>;
  /** One more key of an account. */
  key(accountId: string, role: Role): Promise<Send>;
  /** The text of one more key without the admin role. */
  memberKey(accountId: string): Promise<string>;
  /** Creates a directory and returns its JSON. */
  directory(fields?: object, send?: Send): Promise<Record<string, unknown> & { id: string; sftp_username: string }>;
  /** The account's rows of the audit, oldest first. */
  audit(): Promise<Selectable<AuditTable>[]>;
}

export interface Hosted extends Api, AsyncDisposable {
  /** The same API for a new account. What it recorded of others is forgotten, and its host works. */
  another(): Promise<Api>;
}

export async function hosted(place: Scratch, options: HostedOptions = {}): Promise<Hosted> {
  const clock = options.clock ?? systemClock();
  const sftp = { host: 'sftp.example.com', port: 2222 };
  const config: Config = {
    ...place.config,
    environment: 'live',
    apiUrl: 'https://sftp.example.com',
    sftp,
    trustedProxies: options.trustedProxies ?? [],
    webhooks: { allow: options.dispatches ? ['127.0.0.0/8'] : [], ca: undefined, retryDelays: [0.02, 0.02, 0.02] },
  };
  await using parts = new AsyncDisposableStack();
  copyEmptyDatabase(config);
  copyCertificate(config.tls);
  mkdirSync(config.runtimeDir, { recursive: true });
  const lines: string[] = [];
  const requests: AnsweredRequest[] = [];
  const requestLines: string[] = [];
  const write = (line: string): void => void (line.includes('"msg":"request"') ? requestLines : lines).push(line);
  const log = createLog('debug', { write });
  const database = parts.adopt(await openDatabase(config.database), (opened) => opened.close());
  const ground = createGround({ config, database, clock, log });
  const host = recordingHost();
  const removal = parts.adopt(createRowRemoval({ database, log, host, retryAfterMs: 50 }), (made) => made.close());
  const rules = { ...ground, host, removal, placement: onlyHome(config) };
  const web = parts.adopt(createWeb(ground), (made) => made.close());
  const { authenticationReads: authenticating = (reads) => reads, stalledMs } = options;
  const context: AppContext = {
    ...rules,
    web: {
      ...web,
      authenticate: createAuthenticate(authenticating(database.reads), 'live', clock),
      accountLimit: createRateLimit({ limit: options.rateLimit ?? 120_000, clock }),
      addressLimit: createAddressLimit({ limit: 1e6, clock: () => performance.now(), ...options.unauthenticated }),
      listSlot: slots({ atOnce: 1, stalledMs }),
      fileSlot: slots({ atOnce: options.downloads ?? 16, stalledMs }),
    },
    hostKeys: () => publicHostKeys(pathsOf(config).hostKeys, sftp),
    sessions: liveSessionsOf(pathsOf(config)),
    uploads: uploadList(database.reads),
    files: directoryFiles(
      filesContext(ground, {
        ...(options.isHeld && { isHeld: options.isHeld }),
        ...(options.caughtUp && { caughtUp: options.caughtUp }),
        // Stands for the recorder.
        touch: ({ id }) => void database.db.deleteFrom('placements').where('directory_id', '=', id).execute(),
      }),
    ),
    held: { list: async () => [], release: notHere, remove: notHere },
    changes: createFileChanges(),
    logins: { unwritten: () => [], allUnwritten: () => new Map(), close: async () => undefined },
    ...(options.dispatches ? parts.adopt(startWebhooks(ground), (made) => made.close()) : unsent(parts)),
    mayReach: addressRule(['10.1.0.0/16']),
    depart: undefined,
    checkHealth: options.checkHealth ?? (async () => undefined),
    observe: (request) => void requests.push(request),
  };
  const api = parts.adopt(await startApi(context), (made) => made.close());
  const tls = options.tls === 'proxy' ? 'proxy' : await loadTlsPair(config.tls);
  const server = parts.adopt(
    await startHttpServer({
      ...web,
      app: api.app,
      host: '127.0.0.1',
      port: 0,
      tls,
      ...(options.waits && { waits: options.waits }),
    }),
    (made) => made.close(500),
  );
  const ca = tls === 'proxy' ? Buffer.alloc(0) : readFileSync(config.tls.cert);

  async function account(plan: Plan, role: Role = 'admin'): Promise<Tenant> {
    const { id } = await createAccount(rules, { name: 'Test', plan });
    const { key, id: keyId } = await createKey(rules, { accountId: id }, { role, name: 'test' });
    return { accountId: id, key, keyId, send: client.as(key) };
  }
  const client = parts.use(apiClient({ port: server.port, ca, key: 'none' }));
  const shared = {
    place,
    port: server.port,
    ca,
    server,
    routes: routesOf(context).map(({ method, path }) => `${method} ${path}`),
    database,
    rules,
    host,
    lastUsed: web.lastUsed,
    log: lines,
    requestLines,
    errors: () => lines.filter((line) => (JSON.parse(line) as { level: number }).level >= 50),
    requests,
    client,
    account,
    memberKey: async (accountId: string) =>
      (await createKey(rules, { accountId }, { role: 'member', name: 'more' })).key,
    key: async (accountId: string, role: Role) =>
      client.as((await createKey(rules, { accountId }, { role, name: 'more' })).key),
  };
  const of = (tenant: Tenant): Api => ({
    ...shared,
    send: tenant.send,
    tenant,
    async directory(fields = {}, send = tenant.send) {
      const { status, json, text } = await send('POST', '/directories', {
        json: { directory: { name: 'Acme Corp', ...fields } },
      });
      if (status !== 201) throw new Error(`create answered ${status}: ${text}`);
      return (json as { data: Record<string, unknown> & { id: string; sftp_username: string } }).data;
    },
    audit: () =>
      database.db.selectFrom('audit').selectAll().where('account_id', '=', tenant.accountId).orderBy('id').execute(),
  });
  const first = await account('business');
  const owned = parts.move();
  return {
    ...of(first),
    async another() {
      for (const records of [lines, requestLines, requests]) records.length = 0;
      host.forget();
      return of(await account('business'));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * One API for the tests of a file. It starts at the first call and ends after the file's last test. Each call makes an account; a test
 * that needs settings of its own, or looks at what all accounts have in common, needs `hosted`.
 */
export function sharedHosted(options: HostedOptions = {}): () => Promise<Api> {
  const parts = new AsyncDisposableStack();
  let started: Promise<Hosted> | undefined;
  after(() => parts.disposeAsync());
  const start = async (): Promise<Hosted> => parts.use(await hosted(parts.use(scratch()), options));
  return async () => (await (started ??= start())).another();
}

/** Tests of webhooks that are only enqueued. */
function unsent(parts: AsyncDisposableStack) {
  const { send, close } = createSender(guardedAgents([]), version);
  parts.defer(close);
  return { send, wake: () => undefined };
}

/** What these tests do not have. */
async function notHere(): Promise<never> {
  throw new Error('no file is checked here');
}

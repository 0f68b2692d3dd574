/**
 * The composition root: opens every part, hands each just what it uses, and closes them in reverse.
 *
 * The order matters. What an earlier process left undone about credentials is applied before the API answers; looking
 * at every directory comes after, in the background, so that a start takes as long with a hundred thousand of them.
 */
import { join } from 'node:path';
import { createAuthenticate } from './accounts/authenticate.ts';
import { createLastUsed } from './accounts/last-used.ts';
import { type Background, createBackground } from './background.ts';
import { type Clock, systemClock } from './clock.ts';
import { leadMeter } from './clock-steps.ts';
import type { Config } from './config.ts';
import { refuseMissing } from './db/damage.ts';
import { lockInstance } from './db/instance-lock.ts';
import { type Database, openDatabase } from './db/open.ts';
import { applyUnapplied } from './directories/unapplied.ts';
import { FIRST_UID } from './directories/create.ts';
import type { DirectoryHost } from './directories/host.ts';
import { createRowRemoval } from './directories/row-removal.ts';
import { createAddressLimit } from './http/address-limit.ts';
import { createApp } from './http/app.ts';
import { followCertificate } from './http/certificate.ts';
import { clientAddress, fromProxy } from './http/client-address.ts';
import { observed } from './http/observe.ts';
import { createRateLimit } from './http/rate-limit.ts';
import { requestNames } from './http/request-id.ts';
import { startHttpServer } from './http/server.ts';
import { loadTlsPair } from './http/tls.ts';
import { startPruning } from './history/prune.ts';
import type { Log } from './log.ts';
import { stateQueries } from './metrics/queries.ts';
import { createMetrics } from './metrics/start.ts';
import { createDirectoryHost, prepareFolders } from './sftp/host.ts';
import { pathsOf } from './sftp/paths.ts';
import { preflight } from './sftp/preflight.ts';
import { addressOf } from './sftp/sessions.ts';
import { uploadQueries } from './uploads/queries.ts';
import { startUploads, type Uploads } from './uploads/start.ts';
import { coverAll, retryUnapplied } from './upkeep.ts';
import { version } from './version.ts';
import { Dispatcher } from './webhooks/dispatcher.ts';
import { guardedAgents } from './webhooks/destination-guard.ts';
import { createSender } from './webhooks/send.ts';

/** How long requests in flight may take at the end, in ms. All of a shutdown stays under 10 s. */
const GRACE = 4000;

export interface Service {
  /** The port that the API listens on. */
  readonly port: number;
  /** The port of the metrics; undefined when they are off or their port was taken. */
  readonly metricsPort: number | undefined;
  /** Resolves when every directory has been compared with the disk, scanned and watched. */
  readonly covered: Promise<void>;
  /** Reads the certificate's files again now; otherwise that happens within seconds of a change. */
  reload(): void;
  /** Ends requests, deliveries and records in flight, then everything else. sshd and its sessions go on. */
  close(): Promise<void>;
}

export interface ServiceOptions {
  readonly log: Log;
  readonly clock?: Clock;
  /** Between scans of everything while the kernel does not watch all of it, in ms; a minute when left out. */
  readonly roundPause?: number;
}

/** @throws {OperatorError} when the machine or the configuration has to be mended first. */
export async function startService(config: Config, options: ServiceOptions): Promise<Service> {
  const { log, clock = systemClock(), roundPause } = options;
  preflight(config);
  const paths = pathsOf(config);
  refuseMissing(config);
  prepareFolders(paths);
  await using parts = new AsyncDisposableStack();
  parts.use(lockInstance(join(config.stateDir, 'serve.lock')));
  const database = parts.adopt(await openDatabase(config.databaseFile, { check: true }), closed);
  const stop = new AbortController();
  const metrics = parts.adopt(createMetrics(), closed);
  const background = createBackground(log);

  const sender = createSender(guardedAgents(config.webhooks.allow), version);
  parts.defer(() => sender.close());
  const dispatcher = parts.adopt(
    new Dispatcher({
      database,
      clock,
      log,
      retryDelays: config.webhooks.retryDelays,
      send: sender.send,
      observe: metrics.attempt,
    }),
    closed,
  );
  const uploads = parts.adopt(
    await startUploads({
      database,
      background,
      clock,
      log,
      databaseFile: config.databaseFile,
      jailDir: config.jailDir,
      logFolder: paths.corner,
      tempNames: config.tempNames,
      sync: config.syncUploads,
      lead: leadMeter(clock, () => performance.now()),
      firstUid: FIRST_UID,
      watchLimit: config.watchLimit,
      roundPause,
      transact: dispatcher.transact,
      addressOf: (username, pid) => addressOf(paths, username, pid),
      recorded: (recorded) => metrics.transfers(recorded.map(({ row }) => row)),
    }),
    closed,
  );
  const removal = parts.adopt(createRowRemoval({ database, log }), closed);
  const local = parts.adopt(
    createDirectoryHost({ paths, log, sockets: uploads.sockets, onRemoved: () => undefined }),
    closed,
  );
  const host = watched(local, uploads);
  const lastUsed = parts.adopt(createLastUsed({ database, clock, log }), closed);

  await local.relinkLiveSessions();
  await uploads.adoptSessions();
  await applyUnapplied({ database, host, removal, log });

  const app = createApp({
    rules: { database, clock, host, removal, sftp: config.sftp },
    uploads: uploadQueries(database.reads),
    authenticate: createAuthenticate(database.reads, config.environment),
    lastUsed,
    rateLimit: createRateLimit({ clock, limit: config.rateLimit }),
    addressLimit: createAddressLimit({ limit: config.unauthenticatedRateLimit, clock: () => performance.now() }),
    clientAddress: clientAddress(config.trustedProxies),
    checkHealth: () => checkHealth(database, background, uploads),
    log,
  });
  const pair = config.tls.mode === 'proxy' ? undefined : await loadTlsPair(config.tls);
  const server = await startHttpServer({
    app: observed(app, { log, observe: metrics.request }),
    nameRequest: requestNames(fromProxy(config.trustedProxies)),
    host: config.api.host,
    port: config.api.port,
    tls: pair ?? 'proxy',
  });
  parts.defer(() => server.close(GRACE));
  const certificate = pair && followCertificate({ tls: config.tls, log, pair, use: server.useCertificate });
  parts.defer(() => certificate?.close());
  const sources = {
    queries: stateQueries(database.reads),
    clock,
    deniedLogins: paths.deniedLogins,
    uploads: uploads.state,
  };
  const scrapes = parts.adopt(await metrics.serve(sources, config.metrics, log), closed);

  const upkeep = { database, host, removal, log, signal: stop.signal };
  const covered = coverAll({ ...upkeep, local, uploads, paths });
  const retrying = retryUnapplied(upkeep);
  parts.defer(async () => {
    stop.abort();
    await Promise.all([covered, retrying]);
  });
  const pruning = parts.adopt(startPruning({ database, clock, log, days: config.historyDays }), closed);
  void covered.then(pruning.prune);
  log.info({ port: server.port, metrics_port: scrapes.port }, 'berth serves');

  const owned = parts.move();
  return {
    port: server.port,
    metricsPort: scrapes.port,
    covered,
    reload: () => certificate?.look(),
    close: () => owned.disposeAsync(),
  };
}

/** The host with the watcher told of each directory that comes or goes. */
function watched(host: DirectoryHost, uploads: Pick<Uploads, 'watch' | 'unwatch'>): DirectoryHost {
  return {
    async apply(directory) {
      await host.apply(directory);
      uploads.watch(directory.sftp_username);
    },
    async remove(directory) {
      uploads.unwatch(directory.sftp_username);
      await host.remove(directory);
    },
  };
}

async function checkHealth(database: Database, background: Background, uploads: Pick<Uploads, 'state'>): Promise<void> {
  await database.reads.selectFrom('accounts').select('id').limit(1).execute();
  if (!uploads.state().transferLogRead) throw new Error('the transfer log is not read');
  const failing = background.failing();
  if (failing.length > 0) throw new Error(`${failing.join(', ')} keeps failing`);
}

function closed(part: { close(): unknown }): Promise<void> {
  return Promise.resolve(part.close()).then(() => undefined);
}

/**
 * The composition root: opens every part, gives each only what it uses, and closes them in reverse.
 *
 * The order matters. Credentials that an earlier process left unapplied are written before anything else can fail, and its
 * other changes are applied before the API answers. All directories are compared with the disk afterwards, in the
 * background, so that the start takes no longer with a hundred thousand of them.
 */
import { join } from 'node:path';
import { createAuthenticate } from '../rules/keys/authenticate.ts';
import { USED_API_KEYS } from '../rules/keys/api-keys.ts';
import { type Background, createBackground } from '../foundation/base/background.ts';
import { noteBoot } from '../foundation/base/boot.ts';
import { keepRejected } from '../arrivals/checks/quarantine.ts';
import {
  type Checks,
  type ChecksOptions,
  createReceived,
  placesIn,
  type Received,
  startChecks,
} from '../arrivals/checks/start.ts';
import { type Clock, systemClock } from '../foundation/base/clock.ts';
import { type ClockLead, createClockLead } from '../foundation/db/clock-lead.ts';
import { apiOrigin, type Config } from '../foundation/base/config.ts';
import type { DashboardOptions } from '../doors/dashboard/start.tsx';
import { besideApi, dashboardOf } from './dashboard-app.ts';
import { refuseForeign, refuseMissing } from '../foundation/db/damage.ts';
import { lockInstance } from '../foundation/db/instance-lock.ts';
import { type Database, openDatabase } from '../foundation/db/open.ts';
import { USED_PUBLIC_KEYS } from '../rules/directories/public-keys.ts';
import { applyRequested, applyPending } from '../rules/directories/pending-apply.ts';
import { FIRST_UID } from '../rules/directories/create.ts';
import { onlyHome, readdress } from '../rules/directories/node-placement.ts';
import { createRowRemoval } from '../rules/directories/row-removal.ts';
import { type AppOptions, createApp } from '../doors/http/app.ts';
import { byApiKey } from '../doors/http/access.ts';
import { firstPair, followCertificate, type TlsPair } from '../doors/http/certificate.ts';
import { clientAddress, fromProxy, proxyAddress } from '../doors/web/client-address.ts';
import { connectionLimits } from '../doors/http/connections.ts';
import { NoCertificateError, StartingError } from '../doors/http/health.ts';
import { observed, requestNames } from '../doors/web/observe.ts';
import { linkPages } from '../doors/http/link-page.ts';
import { withMoves } from '../doors/http/moves.ts';
import { byOperator, serveOperators } from '../doors/http/operators.ts';
import { createAccountLimit, createAddressLimit } from '../doors/web/rate-limits.ts';
import { startHttpServer } from '../doors/http/server.ts';
import { turns } from '../doors/web/turns.ts';
import { createLastUsed, type LastUsed } from '../rules/keys/last-used.ts';
import { lastBackup } from '../foundation/base/last-backup.ts';
import { forgetCutOff, linkUses } from '../arrivals/links/use.ts';
import { openFiles, openTransit } from '../arrivals/files/start.ts';
import type { Log } from '../foundation/base/log.ts';
import { createMetrics, type Metrics } from '../operating/metrics/start.ts';
import { dueHere } from '../operating/nodes/due.ts';
import type { Depart } from '../operating/nodes/move/departure.ts';
import type { Nodes, NodesOptions } from '../operating/nodes/start.ts';
import { operatorSocket } from '../foundation/base/operator-socket.ts';
import { createDirectoryHost } from '../machine/sftp/host.ts';
import { offeredKeys } from '../machine/sftp/offered-keys.ts';
import { checkJailDisk, claimJailDisk, jailDiskCheck } from '../machine/sftp/jail-disk.ts';
import { type Paths, pathsOf, prepareFolders } from '../machine/sftp/paths.ts';
import { publicHostKeys } from '../machine/sftp/public-host-keys.ts';
import { preflight } from '../machine/sftp/preflight.ts';
import { applyCredentials } from '../machine/sftp/reconcile.ts';
import { sshdCheck } from '../machine/sftp/sshd-listener.ts';
import { addressOf, liveSessionsOf } from '../machine/sftp/sessions.ts';
import { createFileChanges } from '../arrivals/uploads/file-changes.ts';
import { uploadList } from '../arrivals/uploads/upload-list.ts';
import { startUploads, type Uploads, type UploadsOptions } from '../arrivals/uploads/start.ts';
import { watched } from '../arrivals/uploads/watched-host.ts';
import { startUpkeep } from './upkeep.ts';
import type { TransferLog } from '../arrivals/uploads/log/transfer-log.ts';
import { version } from '../foundation/base/version.ts';
import { guardedAgents } from '../deliveries/webhooks/destination-guard.ts';
import { addressRule } from '../deliveries/webhooks/address-rule.ts';
import { Dispatcher } from '../deliveries/webhooks/dispatcher.ts';
import { startReplayQueue } from '../deliveries/webhooks/replay-queue.ts';
import { createSender, type Send } from '../deliveries/webhooks/send.ts';
import { trustedWith } from '../deliveries/webhooks/trusted.ts';
import { LogKeeper } from './while-away.ts';

/** How long requests in flight may take at the end. The whole shutdown stays below 10 s. */
const GRACE_MS = 4000;

/** How many files may be sent to one account at once. Each holds a descriptor until its client has received it. */
const MAX_DOWNLOADS = 16;

/** How many webhooks an account may test at once: each test may take 6 s. */
const MAX_TESTS = 4;

export interface Service {
  /** The port of the API. */
  readonly port: number;
  /** The port of the dashboard, usually the API's; undefined when the dashboard is off. */
  readonly dashboardPort: number | undefined;
  /** The port of the metrics; undefined when they are off, or the port was taken. */
  readonly metricsPort: number | undefined;
  /** Resolves when every directory has been compared with the disk, scanned and watched. */
  readonly covered: Promise<void>;
  /** Reads the certificate's files again now. Otherwise that happens within seconds of a change. */
  reload(): void;
  /** Finishes requests, deliveries and records in flight, then closes everything else. sshd and its sessions go on. */
  close(): Promise<void>;
}

export interface ServiceOptions {
  readonly log: Log;
  readonly clock?: Clock;
  /** Opens and closes the transfer log; by default the service has its own. */
  readonly keeper?: LogKeeper;
  /** The pause in ms between full scans while not everything is watched; a minute by default. */
  readonly roundPause?: number;
  /** How the passwords of the dashboard's users are kept. */
  readonly hashing?: DashboardOptions['hashing'];
}

/** The dependencies that most parts share. */
interface Ground {
  readonly config: Config;
  readonly paths: Paths;
  readonly database: Database;
  readonly background: Background;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly clockLead: ClockLead;
  readonly log: Log;
  readonly nodes: Nodes | undefined;
  readonly isJailDiskThere: () => boolean;
}

/** @throws {OperatorError} when the operator has to fix the machine or the configuration first. */
export async function startService(config: Config, options: ServiceOptions): Promise<Service> {
  const { log, clock = systemClock(), roundPause, keeper, hashing } = options;
  preflight(config);
  const paths = pathsOf(config);
  refuseMissing(config);
  const diskId = await checkJailDisk(config);
  prepareFolders(paths);
  if (diskId !== undefined) await claimJailDisk(paths, diskId);
  await using parts = new AsyncDisposableStack();
  parts.use(lockInstance(join(config.stateDir, 'serve.lock')));
  const uncleanBoot = noteBoot(config.stateDir, config.bootId, systemClock().now());
  const opening = { check: true, isEager: true, reserveBeside: config.databaseFile };
  const database = parts.adopt(await openDatabase(config.database, opening), closed);
  await refuseForeign(database.reads, config);
  const metrics = parts.adopt(createMetrics(), closed);
  const background = createBackground(log);
  applyCredentials({ paths, log }, await dueHere(database.reads, config));
  const nodes =
    config.node === ''
      ? undefined
      : parts.adopt(await joinNodes({ config, ...database, background, clock, log }), closed);
  const { host: sftpHost, port: sftpPort } = config.sftp;
  const moved = await readdress(database, config);
  if (moved > 0) {
    log.warn(
      { directories: moved, sftp_host: sftpHost, sftp_port: sftpPort },
      'BERTH_SFTP_HOST or BERTH_SFTP_PORT has changed: from now on answers and pages show the new address, which customers have to use',
    );
  }
  await forgetCutOff(database, config.node);
  const clockLead = createClockLead({ database, clock, log });
  const isJailDiskThere = jailDiskCheck(paths);
  const ground = { config, paths, database, background, metrics, clock, clockLead, log, nodes, isJailDiskThere };

  const { dispatcher, send } = openWebhooks(ground, parts);
  const keysUsed = parts.adopt(createLastUsed({ ...ground, of: USED_PUBLIC_KEYS }), closed);
  const changes = createFileChanges();
  const transferLog = await (keeper ?? parts.use(new LogKeeper(config, log))).open();
  const received = createReceived();
  const recording = { dispatcher, keysUsed, changes, received, roundPause, transferLog, uncleanBoot };
  const quarantined = (id: string, file: string) => keepRejected(database.reads, id, file, placesIn(paths.quarantine));
  const transit = await openTransit({
    folder: paths.transit,
    jailDir: config.jailDir,
    node: config.node,
    database,
    log,
    quarantined,
  });
  const uploads = parts.adopt(await openUploads(ground, recording), closed);
  const local = parts.adopt(createDirectoryHost({ paths, log, sockets: transferLog, moved: uploads.scan }), closed);
  const removal = parts.adopt(createRowRemoval({ database, log, host: local }), closed);
  const placement = nodes?.placement ?? onlyHome(config);
  const own = watched(local, uploads);
  const host = nodes?.hostOf(own) ?? own;
  await local.relinkLiveSessions();
  await uploads.adoptSessions();
  const following = { database, host, placement, removal, log };
  await applyPending(following);
  await nodes?.begin({ apply: (id) => applyRequested(following, id), applyAll: () => applyPending(following) });

  const depart = nodes?.departures({ local, uploads });
  const rules = { database, clock, host, placement, removal };
  const checkHealth = (): Promise<void> => health(ground, uploads);
  const replays = parts.adopt(startReplayQueue({ ...ground, transact: dispatcher.transact }), closed);
  const wake = (): void => {
    dispatcher.wake();
    void replays.run();
  };
  const webhooks = { wake, send };
  const { transact } = dispatcher;
  const { access, files: ownFiles } = openFiles({
    database,
    clock,
    transact,
    isChecked: config.check !== undefined,
    transit,
    live: uploads.live,
  });
  const files = nodes?.filesOf(ownFiles) ?? ownFiles;
  const { held } = parts.adopt(await openChecks(ground, { dispatcher, files, access, received }), closed);
  const api = await openApi(ground, { rules, webhooks, files, held, changes, checkHealth, hashing }, parts, depart);
  const sources = {
    reads: database.reads,
    node: config.node,
    clock,
    background,
    deniedLogins: paths.deniedLogins,
    uploads: uploads.state,
    isSshdUp: sshdCheck(paths, config.sftp.port),
    isJailDiskThere,
    lastBackup: () => lastBackup(config),
    folders: { jails: config.jailDir, state: config.stateDir },
    certificate: config.tls.mode === 'proxy' ? undefined : config.tls.lastGood,
    isCertificateRefused: api.isCertificateRefused,
  };
  const scrapes = parts.adopt(await metrics.serve(sources, config.metrics, log), closed);
  const { historyDays } = config;
  const upkeep = parts.adopt(startUpkeep({ ...ground, host, placement, local, removal, uploads, historyDays }), closed);
  const { port, dashboardPort, reload } = api;
  log.info({ port, dashboard_port: dashboardPort, metrics_port: scrapes.port }, 'berth serves');

  const owned = parts.move();
  return {
    port,
    dashboardPort,
    metricsPort: scrapes.port,
    covered: upkeep.covered,
    reload,
    close: () => owned.disposeAsync(),
  };
}

function openWebhooks(
  { config, database, clock, log, metrics }: Ground,
  parts: AsyncDisposableStack,
): { dispatcher: Dispatcher; send: Send } {
  const { allow, ca, retryDelays } = config.webhooks;
  const { send, close } = createSender(guardedAgents(allow, undefined, trustedWith(ca, log)), version, log);
  parts.defer(close);
  const observe = metrics.attempt;
  return {
    dispatcher: parts.adopt(new Dispatcher({ database, clock, log, retryDelays, send, observe }), closed),
    send,
  };
}

interface Recording extends Pick<UploadsOptions, 'roundPause' | 'uncleanBoot'> {
  readonly transferLog: TransferLog;
  readonly dispatcher: Dispatcher;
  readonly keysUsed: Pick<LastUsed, 'note'>;
  readonly changes: ReturnType<typeof createFileChanges>;
  readonly received: Received;
}

function openUploads(
  ground: Ground,
  { dispatcher, keysUsed, changes, received, ...recording }: Recording,
): Promise<Uploads> {
  const { config, paths, metrics, nodes } = ground;
  return startUploads({
    ...ground,
    ...recording,
    node: config.node,
    jailDir: config.jailDir,
    tempNames: config.tempNames,
    sync: config.syncUploads,
    isChecked: config.check !== undefined,
    firstUid: FIRST_UID,
    watchLimit: config.watchLimit,
    transact: dispatcher.transact,
    isShut: nodes?.isShut,
    isAway: nodes?.isCutOff,
    addressOf: (username, pid) => addressOf(paths, username, pid),
    recorded(recorded) {
      const rows = recorded.map(({ row }) => row);
      metrics.transfers(rows);
      changes.committed(rows);
      received.committed(rows);
      for (const { directory_id: id, username } of rows.filter(({ event }) => event === 'session-opened')) {
        for (const { fingerprint, at } of offeredKeys(paths, username)) keysUsed.note(`${id} ${fingerprint}`, at);
      }
    },
  });
}

function openChecks(
  ground: Ground,
  {
    dispatcher,
    ...uploads
  }: Pick<ChecksOptions, 'files' | 'access' | 'received'> & { readonly dispatcher: Dispatcher },
): Promise<Checks> {
  const { config, paths, metrics, nodes, database } = ground;
  return startChecks({
    ...ground,
    ...uploads,
    node: config.node,
    folder: paths.quarantine,
    historyDays: config.historyDays,
    settings: config.check,
    transact: dispatcher.transact,
    through: nodes?.through,
    observe: config.check ? metrics.check({ ...ground, reads: database.reads }) : () => undefined,
  });
}

/** Serves the API on its port. It is closed first, since its requests need every other part. */
async function openApi(
  { config, paths, database, background, metrics, clock, clockLead, log }: Ground,
  own: Pick<
    AppOptions & DashboardOptions,
    'rules' | 'webhooks' | 'files' | 'held' | 'changes' | 'checkHealth' | 'hashing'
  >,
  parts: AsyncDisposableStack,
  depart: Depart | undefined,
): Promise<Pick<Service, 'port' | 'dashboardPort' | 'reload'> & { isCertificateRefused(): boolean }> {
  const address = clientAddress(config.trustedProxies);
  const shared = {
    ...own,
    links: {
      origin: apiOrigin(config),
      uses: linkUses({ database, clock }),
      pages: linkPages(),
      clientAddress: address,
    },
    environment: config.environment,
    followsLogins: config.dashboard.isOn,
    uploads: uploadList(database.reads),
    listTurn: turns({ atOnce: 1 }),
    fileTurn: turns({ atOnce: MAX_DOWNLOADS }),
    testTurn: turns({ atOnce: MAX_TESTS }),
    sessions: liveSessionsOf(paths),
    mayReach: addressRule(config.webhooks.allow),
    hostKeys: () => publicHostKeys(paths.hostKeys, config.sftp),
    clockLead,
    log,
  };
  const addressLimit = createAddressLimit({ limit: config.unauthenticatedRateLimit, clock: () => performance.now() });
  const identify = byApiKey({
    authenticate: createAuthenticate(database.reads, config.environment, clock),
    lastUsed: parts.adopt(createLastUsed({ database, clock, background, of: USED_API_KEYS }), closed),
    rateLimit: parts.adopt(createAccountLimit({ database, clock, background, limit: config.rateLimit }), closed),
    addressLimit,
    clientAddress: address,
  });
  const nameRequest = requestNames(fromProxy(config.trustedProxies));
  const observing = { log, observe: metrics.request };
  /** The reason why the port is not healthy, if there is one. Supervisors query root's socket, which no stranger can fill. */
  let obstacle: Error | undefined = new StartingError();
  const checkHealth = async (): Promise<void> => {
    if (obstacle) throw obstacle;
    await own.checkHealth();
  };
  const ofOperators = createApp({ ...shared, checkHealth, identify: byOperator(database.reads), isOfOperators: true });
  const operators = observed(depart ? withMoves(ofOperators, depart, log) : ofOperators, observing);
  parts.adopt(await serveOperators(operatorSocket(config), { app: operators, nameRequest, log }), closed);
  const first = config.tls.mode === 'proxy' ? undefined : await firstPair(config.tls, log);
  const app = observed(createApp({ ...shared, identify }), observing);
  const closing = new AbortController();
  const visited = { clientAddress: address, addressLimit, closing: closing.signal, background };
  const pages = await dashboardOf(config, { ...shared, ...visited }, parts);
  const dashboard = pages && { ...pages, app: observed(pages.app, observing) };
  const { own: place } = config.dashboard;
  const listening = {
    nameRequest,
    tls: first ? (first.pair ?? 'pending') : 'proxy',
    isProxy: proxyAddress(config.trustedProxies),
    connections: connectionLimits(dashboard && place ? 2 : 1),
  } as const;
  const both = dashboard && !place ? besideApi(app, dashboard) : app;
  const server = await startHttpServer({ ...listening, ...config.api, app: both });
  parts.defer(() => server.close(GRACE_MS));
  const settings = 'BERTH_DASHBOARD_HOST, BERTH_DASHBOARD_PORT';
  const other = dashboard && place && (await startHttpServer({ ...listening, ...place, settings, app: dashboard.app }));
  parts.defer(() => other?.close(GRACE_MS));
  parts.defer(() => closing.abort());
  obstacle = first && !first.pair ? new NoCertificateError() : undefined;
  const ports = { port: server.port, dashboardPort: dashboard && (other ?? server).port };
  if (!first) return { ...ports, reload: () => undefined, isCertificateRefused: () => false };
  const use = (pair: TlsPair): void => {
    [server, other].forEach((each) => each?.useCertificate(pair));
    obstacle = undefined;
  };
  const follower = parts.adopt(followCertificate({ tls: config.tls, background, log, first, use }), closed);
  return { ...ports, reload: follower.inspect, isCertificateRefused: follower.isRefused };
}

/** Imported only when needed, since PostgreSQL's client takes memory. */
async function joinNodes(options: NodesOptions): Promise<Nodes> {
  return (await import('../operating/nodes/start.ts')).startNodes(options);
}

/** @throws {Error} with the first problem. */
async function health(
  { database, background, isJailDiskThere }: Ground,
  uploads: Pick<Uploads, 'state'>,
): Promise<void> {
  await database.reads.selectFrom('accounts').select('id').limit(1).execute();
  if (!uploads.state().transferLogRead) throw new Error('the transfer log is not being read');
  if (!isJailDiskThere()) throw new Error('the disk of the jails is not mounted');
  const failing = background.failing();
  if (failing.length > 0) throw new Error(`${failing.join(', ')} keeps failing`);
}

async function closed(part: { close(): unknown }): Promise<void> {
  await part.close();
}

/**
 * The composition root: starts every part with what it uses, in the order in which they build on each other, and closes them in reverse.
 *
 * The order matters. Credentials that an earlier process left unapplied are written before anything else can fail, and its
 * other changes are applied before the API answers. All directories are compared with the disk afterwards, in the
 * background, so that the start takes no longer with a hundred thousand of them.
 */
import { join } from 'node:path';
import type { Background } from '../foundation/base/background.ts';
import { noteBoot } from '../foundation/base/boot.ts';
import { type Clock, systemClock } from '../foundation/base/clock.ts';
import type { Config } from '../foundation/base/config.ts';
import type { Log } from '../foundation/base/log.ts';
import { startSpareMemory } from '../foundation/base/spare-memory.ts';
import { createGround } from '../foundation/context.ts';
import { refuseMissing, refuseOtherInstallation } from '../foundation/db/damage.ts';
import { lockInstance } from '../foundation/db/instance-lock.ts';
import { type Database, openDatabase } from '../foundation/db/open.ts';
import { FIRST_UID } from '../rules/directories/create.ts';
import { type DirectoryHost, readdress } from '../rules/directories/host.ts';
import { applyPending, applyRequested } from '../rules/directories/pending-apply.ts';
import { createRowRemoval } from '../rules/directories/row-removal.ts';
import { createDirectoryHost } from '../machine/sftp/host.ts';
import { preflight } from '../machine/sftp/preflight.ts';
import { applyCredentials } from '../machine/sftp/reconcile.ts';
import { type Machine, prepareMachine } from '../machine/sftp/start.ts';
import { startUsedPublicKeys } from '../machine/sftp/used-public-keys.ts';
import { startWebhooks } from '../deliveries/webhooks/start.ts';
import { keepRejected } from '../arrivals/checks/quarantine.ts';
import { createReceived, placesIn, startChecks } from '../arrivals/checks/start.ts';
import { forgetCutOff } from '../arrivals/links/use.ts';
import { createFileChanges } from '../arrivals/uploads/file-changes.ts';
import { unannouncedNames } from '../arrivals/uploads/file-path.ts';
import type { Jail } from '../arrivals/uploads/jails.ts';
import { startUploads, type Uploads } from '../arrivals/uploads/start.ts';
import { uploadList } from '../arrivals/uploads/upload-list.ts';
import { createMetrics } from '../operating/metrics/start.ts';
import { joinNodes } from '../operating/nodes/join.ts';
import { dueHere } from '../operating/nodes/leftovers.ts';
import { followLogins } from '../operating/reports/login-log.ts';
import { sshdLogOf } from '../operating/reports/sshd-log-file.ts';
import { startApi } from '../interfaces/http/app.ts';
import { createReadiness } from '../interfaces/http/health.ts';
import { openPorts } from '../interfaces/http/ports.ts';
import { type AppContext, createWeb } from '../interfaces/web/context.ts';
import { startUpkeep } from './upkeep.ts';
import { LogKeeper } from './while-away.ts';
import { DeferredRemovals } from '../arrivals/files/deferred-removal.ts';
import { directoryFiles } from '../arrivals/files/directory-files.ts';
import { openTransit } from '../arrivals/files/transit.ts';

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
  readonly hashing?: AppContext['hashing'];
}

/** @throws {OperatorError} when the operator has to fix the machine or the configuration first. */
export async function startService(config: Config, options: ServiceOptions): Promise<Service> {
  const { log, clock = systemClock(), roundPause, keeper, hashing } = options;
  await using parts = new AsyncDisposableStack();
  const own = <Part extends Closable>(part: Part): Part => parts.adopt(part, closed);

  // The ground: the machine's disk, the database, and before anything else that may fail, the credentials.
  preflight(config);
  refuseMissing(config);
  const machine = await prepareMachine(config);
  const { paths, isJailDiskThere } = machine;
  parts.use(lockInstance(join(config.stateDir, 'serve.lock')));
  const uncleanBoot = noteBoot(config.stateDir, config.bootId, systemClock().now());
  const opening = { check: true, isEager: true, reserveBeside: config.databaseFile };
  const database = own(await openDatabase(config.database, opening));
  const { reads } = database;
  await refuseOtherInstallation(reads, config);
  applyCredentials({ paths, log }, await dueHere(reads, config));
  const ground = createGround({ config, database, clock, log });
  const { background } = ground;
  own(startSpareMemory(background));

  const metrics = own(createMetrics());
  const nodes = own(await joinNodes(ground));
  await readdress(database, config, log);
  await forgetCutOff(database, config.node);
  const webhooks = own(startWebhooks(ground, metrics.attempt));
  const { transact } = webhooks;

  // Arrivals. What a crash left in transit is put back before uploads follows the directories.
  const usedPublicKeys = own(startUsedPublicKeys(ground, paths));
  const changes = createFileChanges();
  const received = createReceived();
  const transferLog = await (keeper ?? parts.use(new LogKeeper(config, log))).open();
  const quarantined = (id: string, file: string): Promise<boolean> =>
    keepRejected(reads, id, file, placesIn(paths.quarantine));
  const transit = await openTransit(ground, paths.transit, quarantined);
  const uploads = own(
    await startUploads({
      ...ground,
      node: config.node,
      jailDir: config.jailDir,
      transact,
      isChecked: config.check !== undefined,
      settles: config.settleSeconds > 0,
      isUnannounced: unannouncedNames(config.unannouncedNames),
      tempNames: config.tempNames,
      sync: config.syncUploads,
      watchLimit: config.watchLimit,
      roundPause,
      firstUid: FIRST_UID,
      paths,
      isJailDiskThere,
      addressOf: machine.addressOf,
      isShut: nodes.isShut,
      isAway: nodes.isCutOff,
      transferLog,
      uncleanBoot,
      recorded(recorded) {
        const rows = recorded.map(({ row }) => row);
        metrics.transfers(rows);
        for (const observer of [changes, received, usedPublicKeys]) observer.committed(rows);
      },
    }),
  );

  // The rules, for this machine as uploads watches it, and the changes that an earlier process left.
  const local = own(createDirectoryHost({ paths, log, sockets: transferLog, moved: uploads.scan }));
  const host = nodes.hostOf(watched(local, uploads));
  const removal = own(createRowRemoval({ database, log, host: local }));
  const rules = { ...ground, host, placement: nodes.placement, removal };
  await local.relinkLiveSessions();
  await uploads.adoptSessions();
  await applyPending(rules);
  await nodes.begin({ apply: (id) => applyRequested(rules, id), applyAll: () => applyPending(rules) });

  const { through } = nodes;
  const filesGround = { ...ground, ...uploads.live, transact, transit, isJailDiskThere, through, quarantined };
  const deferral = own(new DeferredRemovals(filesGround));
  const filesContext = { ...filesGround, deferral };
  const files = nodes.filesOf(directoryFiles(filesContext));
  const observe = config.check ? metrics.check(ground) : () => undefined;
  const checks = own(await startChecks(filesContext, { folder: paths.quarantine, files, received, observe }));

  const logins = own(followLogins(ground, sshdLogOf(config)));

  // The interfaces. Supervisors query root's socket, which no stranger can fill, before the ports listen.
  const readiness = createReadiness(() => checkHealth(ground, machine, uploads));
  async function drained(jail: Jail): Promise<void> {
    await uploads.drained(jail);
    await deferral.endIn(jail);
  }
  const { wake, send, mayReach } = webhooks;
  const context: AppContext = {
    ...rules,
    web: own(createWeb(ground)),
    hostKeys: machine.hostKeys,
    sessions: machine.sessions,
    uploads: uploadList(reads),
    files,
    held: checks.held,
    changes,
    logins,
    wake,
    send,
    mayReach,
    depart: nodes.departures({ local, uploads: { ...uploads, drained } }),
    checkHealth: readiness.check,
    observe: metrics.request,
    hashing,
  };
  const api = own(await startApi(context));
  const dashboard = config.dashboard.isOn ? await startDashboard(context) : undefined;
  const ports = own(await openPorts(context, { api: api.app, dashboard }, readiness));

  // Operating.
  const { isCertificateRefused } = ports;
  const scrapes = own(await metrics.serve(ground, { ...machine, uploads: uploads.state, isCertificateRefused }));
  const upkeep = own(startUpkeep({ ...rules, paths, isJailDiskThere, local, uploads }));
  const { port, dashboardPort, reload } = ports;
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

/** Imported only when it is on, since commands and an API alone do not need it. */
async function startDashboard(context: AppContext) {
  const dashboard = await import('../interfaces/dashboard/app.tsx');
  return dashboard.startDashboard(context);
}

/** @throws {Error} with the first problem. */
async function checkHealth(
  { database, background }: { readonly database: Database; readonly background: Background },
  { isJailDiskThere }: Pick<Machine, 'isJailDiskThere'>,
  uploads: Pick<Uploads, 'state'>,
): Promise<void> {
  await database.reads.selectFrom('accounts').select('id').limit(1).execute();
  if (!uploads.state().transferLogRead) throw new Error('the transfer log is not being read');
  if (!isJailDiskThere()) throw new Error('the disk of the jails is not mounted');
  const failing = background.failing();
  if (failing.length > 0) throw new Error(`${failing.join(', ')} keeps failing`);
}

interface Closable {
  close(): unknown;
}

async function closed(part: Closable): Promise<void> {
  await part.close();
}

/** This machine's host, which also reports each directory that comes or goes to the watcher. */
function watched(host: DirectoryHost, uploads: Pick<Uploads, 'watch' | 'unwatch'>): DirectoryHost {
  return {
    ...host,
    async apply(directory) {
      await host.apply(directory);
      uploads.watch(directory);
    },
    async remove(directory) {
      uploads.unwatch(directory);
      await host.remove(directory);
    },
  };
}

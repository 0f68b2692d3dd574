/** Metrics that are read at each scrape: of this process (sessions, background loops, the event loop) and of the machine (sshd, free space, the certificate). */
import { statSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Background } from '../../foundation/base/background.ts';
import { type Registry, type Samples, scraped } from './registry.ts';
import { readdir, readFile, statfs } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { SECOND } from '../../foundation/base/clock.ts';
import { type Kysely, sql } from 'kysely';
import { standbyLags } from '../../foundation/db/postgres-server.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { listNodes } from '../nodes/list.ts';
import type { Ground } from '../../foundation/context.ts';
import type { Config } from '../../foundation/base/config.ts';
import { lastBackup } from '../../foundation/base/last-backup.ts';

/** How often the event loop's delay is sampled. */
const RESOLUTION_MS = 20;

/** The ground, of which only the failures of loops are measured. A test reports some of its own. */
export interface Measured extends Omit<Ground, 'background' | 'clockLead'> {
  readonly background: Pick<Background, 'failures'>;
}

/** What scrapes ask other parts of berth. */
export interface Asked {
  /** `deniedLogins`: the file to which `openssh/admit` adds a byte for each login over the limit of connections. */
  readonly paths: { readonly deniedLogins: string };
  uploads(): { readonly sessions: number; readonly transferLogRead: boolean; readonly watchesComplete: boolean };
  /** Whether our sshd listens on its port. */
  isSshdUp(): boolean;
  isJailDiskThere(): boolean;
  /** Whether the configured files hold a certificate that cannot be used. */
  isCertificateRefused(): boolean;
}

export function stateMetrics(registry: Registry, ground: Measured, { paths, uploads }: Asked): void {
  const { background } = ground;
  const gauge = (name: string, help: string, read: () => number): void =>
    scraped(registry, 'gauge', { name, help }, read);
  gauge('berth_sftp_sessions', 'Live SFTP sessions.', () => uploads().sessions);
  gauge('berth_transfer_log_up', '1 while the transfer log is read.', () => Number(uploads().transferLogRead));
  gauge(
    'berth_watcher_complete',
    '1 while every directory is watched, except crowded ones; 0 when scans cover some instead.',
    () => Number(uploads().watchesComplete),
  );
  databaseMetrics(registry, ground);
  const denied = {
    name: 'berth_logins_denied_total',
    help: 'Logins with the right password or key that exceeded max_connections. Resets when the machine restarts.',
    label: 'reason',
  };
  scraped(registry, 'counter', denied, () => ({
    'too-many-connections': statSync(paths.deniedLogins, { throwIfNoEntry: false })?.size ?? 0,
  }));
  const failures = {
    name: 'berth_background_failures_total',
    help: 'Runs of background loops that failed and are retried.',
    label: 'loop',
  };
  scraped(registry, 'counter', failures, () => Object.fromEntries(background.failures()));
}

/** Measures until it is disposed of. */
export function eventLoopLag(registry: Registry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  // The histogram holds whole intervals, in ns.
  const late = (ns: number): number => (delay.count === 0 ? 0 : Math.max(0, ns / 1e6 - RESOLUTION_MS) / 1000);
  const lag = {
    name: 'berth_event_loop_lag_seconds',
    help: 'The lag of the event loop since the last scrape: median, 99th percentile and worst.',
    // Not `quantile`, which belongs to summaries.
    label: 'percentile',
  };
  scraped(registry, 'gauge', lag, () => {
    const samples = { 50: late(delay.percentile(50)), 99: late(delay.percentile(99)), 100: late(delay.max) };
    delay.reset();
    return samples;
  });
  return { [Symbol.dispose]: () => void delay.disable() };
}

/** Metrics of this process, under the names that the clients of Prometheus share. */
export function processMetrics(registry: Registry): void {
  const metric = (type: 'counter' | 'gauge') => (name: string, help: string, read: () => number | Promise<number>) =>
    // Without /proc, for example, the others are still there.
    scraped(registry, type, { name, help }, async () => Promise.try(read).catch(() => ({})));
  const counter = metric('counter');
  const gauge = metric('gauge');
  const began = Date.now() / 1000 - process.uptime();

  const cpu = { user: () => process.cpuUsage().user / 1e6, system: () => process.cpuUsage().system / 1e6 };
  counter('process_cpu_user_seconds_total', 'Processor time of all threads outside of the kernel.', cpu.user);
  counter('process_cpu_system_seconds_total', 'Processor time of all threads in the kernel.', cpu.system);
  counter('process_cpu_seconds_total', 'Processor time of all threads.', () => cpu.user() + cpu.system());
  gauge('process_start_time_seconds', 'When the process began, in seconds since 1970.', () => began);
  gauge('process_resident_memory_bytes', 'Memory in use.', () => process.memoryUsage.rss());
  gauge('process_virtual_memory_bytes', 'Address space in use.', async () => {
    const [, kibibytes] = /^VmSize:\s+(\d+) kB$/m.exec(await readFile('/proc/self/status', 'utf8')) ?? [];
    return Number(kibibytes) * 1024;
  });
  gauge('process_open_fds', 'Open file descriptors.', async () => (await readdir('/proc/self/fd')).length);
  gauge('process_max_fds', 'The most file descriptors that may be open.', async () => {
    const [, most] = /^Max open files +(\d+)/m.exec(await readFile('/proc/self/limits', 'utf8')) ?? [];
    return Number(most);
  });
  gauge('nodejs_heap_size_total_bytes', 'The size of the JavaScript heap.', () => process.memoryUsage().heapTotal);
  gauge('nodejs_heap_size_used_bytes', 'The part of it that is in use.', () => process.memoryUsage().heapUsed);
  gauge('nodejs_external_memory_bytes', 'Memory of buffers and libraries.', () => process.memoryUsage().external);
}

export function machineMetrics(
  registry: Registry,
  config: Config,
  { isSshdUp, isJailDiskThere, isCertificateRefused }: Asked,
): void {
  const sshd = { name: 'berth_sshd_up', help: '1 while our sshd listens on the SFTP port.' };
  scraped(registry, 'gauge', sshd, async () => Number(isSshdUp()));

  const disk = { name: 'berth_jails_disk_up', help: '1 while the disk of the jails is mounted.' };
  scraped(registry, 'gauge', disk, async () => Number(isJailDiskThere()));

  const backup = {
    name: 'berth_backup_timestamp_seconds',
    help: 'When the last backup was made here, in seconds since 1970; 0 for never.',
  };
  scraped(registry, 'gauge', backup, async () => (lastBackup(config) ?? 0) / SECOND);

  const perFolder = (read: (folder: string) => Promise<number>) => async () => ({
    jails: await read(config.jailDir),
    state: await read(config.stateDir),
  });
  const bytes = {
    name: 'berth_disk_free_bytes',
    help: 'Free space on the disks of the files and of the state.',
    label: 'folder',
  };
  scraped(
    registry,
    'gauge',
    bytes,
    perFolder(async (folder) => {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    }),
  );
  const share = {
    name: 'berth_disk_free_ratio',
    help: 'Free share of their space or of their inodes, whichever is less.',
    label: 'folder',
  };
  scraped(
    registry,
    'gauge',
    share,
    perFolder(async (folder) => {
      const { bavail, blocks, ffree, files } = await statfs(folder);
      // Some file systems have no fixed number of inodes, and report 0.
      return Math.min(bavail / blocks, files === 0 ? 1 : ffree / files);
    }),
  );

  if (config.tls.mode === 'proxy') return;
  const { lastGood: certificate } = config.tls;
  const refused = {
    name: 'berth_certificate_refused',
    help: '1 while the configured certificate cannot be used, and an older one is in use.',
  };
  scraped(registry, 'gauge', refused, async () => Number(isCertificateRefused()));
  const expiry = {
    name: 'berth_certificate_expiry_timestamp_seconds',
    help: "When the API's certificate expires, in seconds since 1970; 0 without one.",
  };
  scraped(registry, 'gauge', expiry, async () => {
    const pem = await readFile(certificate).catch(() => undefined);
    return pem ? new X509Certificate(pem).validToDate.getTime() / 1000 : 0;
  });
}

// Metrics that each scrape reads from the database: its state, the nodes that share it, the outbox, partial uploads.
// While the database is unavailable these have no samples; all other metrics still have theirs.

const OPEN_STATES = ['queued', 'running', 'waiting'] as const;
const NODE_STATES = ['live', 'away', 'drained'] as const;

function databaseMetrics(registry: Registry, { config, database, clock }: Measured): void {
  const { reads } = database;
  const gauge = (name: string, help: string, read: () => Promise<Samples>, label = ''): void =>
    scraped(registry, 'gauge', { name, help, label }, () => read().catch(() => ({})));
  gauge(
    'berth_database_up',
    '1 while the database answers; otherwise the metrics that are read from it are missing.',
    () =>
      answer(reads).then(
        () => 1,
        () => 0,
      ),
  );
  gauge('berth_database_answer_seconds', 'How long the database took to answer a trivial query.', () => answer(reads));
  gauge(
    'berth_database_standby_lag_bytes',
    "How far PostgreSQL's standbys are behind; needs pg_monitor.",
    () => standbyLags(reads),
    'standby',
  );
  gauge(
    'berth_nodes',
    'Machines that share the database, by state: live, away, drained (get no new directories).',
    async () => {
      const states = config.node === '' ? [] : (await listNodes(reads)).map(({ state }) => state);
      return Object.fromEntries(NODE_STATES.map((each) => [each, states.filter((state) => state === each).length]));
    },
    'state',
  );
  gauge(
    'berth_unapplied_directories',
    'Directories with a change that their node has yet to make durable on its disk.',
    () => pendingApply(reads),
    'node',
  );
  gauge('berth_partial_uploads', 'Files whose upload was cut off and not completed.', () => partialUploads(reads));
  gauge('berth_outbox_oldest_seconds', 'Age of the oldest undelivered webhook; 0 without any.', async () => {
    const now = clock.now();
    const oldest = await Promise.all(OPEN_STATES.map(async (state) => (await outbox(reads, state)).oldest ?? now));
    return Math.max(0, now - Math.min(...oldest)) / 1_000_000;
  });
  gauge(
    'berth_outbox_deliveries',
    'Undelivered webhooks: due (queued), being sent (running), waiting for a retry (waiting).',
    async () => {
      const counts = OPEN_STATES.map(async (state) => [state, (await outbox(reads, state)).count] as const);
      return Object.fromEntries(await Promise.all(counts));
    },
    'state',
  );
  gauge('berth_clock_lead_seconds', 'How far the clock is ahead of the elapsed time; see berth clock.', async () => {
    const { lead } = await reads.selectFrom('clock').select('lead').executeTakeFirstOrThrow();
    return lead / 1_000_000;
  });
}

/** How long a trivial query takes, in seconds. @throws when the database does not answer. */
async function answer(reads: Kysely<Tables>): Promise<number> {
  const began = performance.now();
  await sql`select 1`.execute(reads);
  return (performance.now() - began) / 1000;
}

async function pendingApply(reads: Kysely<Tables>): Promise<Record<string, number>> {
  const rows = await reads
    .selectFrom('unapplied as u')
    .innerJoin('directories as d', 'd.id', 'u.directory_id')
    .select(({ fn }) => ['d.node', fn.countAll<number>().as('count')])
    .groupBy('d.node')
    .execute();
  return Object.fromEntries(rows.map(({ node, count }) => [node, count]));
}

/** The number of deliveries in that state, and since when the oldest is in the outbox. */
function outbox(reads: Kysely<Tables>, state: (typeof OPEN_STATES)[number]) {
  return (
    reads
      .selectFrom('deliveries')
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('inserted_at').as('oldest')])
      // A literal in the text, since SQLite could not use the partial index with a parameter.
      .where('state', '=', sql.lit(state))
      .executeTakeFirstOrThrow()
  );
}

async function partialUploads(reads: Kysely<Tables>): Promise<number> {
  const { count } = await reads
    .selectFrom('files')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', sql.lit('partial'))
    .executeTakeFirstOrThrow();
  return count;
}

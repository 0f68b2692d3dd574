/**
 * The only reader of the environment. `readConfig` is pure: it turns a record of strings into a valid configuration, or throws one
 * error that lists every problem.
 */
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { isAbsolute, join, normalize } from 'node:path';
import ipaddr from 'ipaddr.js';
import * as v from 'valibot';
import { companyLogin, type CompanyLogin, OIDC_SETTINGS } from './company-login-settings.ts';
import { isPostgresUrl } from './database-place.ts';
import { OperatorError } from './errors.ts';
import { FOLDERS } from './files.ts';
import { urlHost } from './text.ts';

export interface Config {
  readonly stateDir: string;
  readonly jailDir: string;
  /** Descriptors of the transfer log's sockets (scripts/lib/log-sockets); empty when no supervisor holds them for this process. */
  readonly logSockets: readonly number[];
  /** The id of this boot of the machine; undefined to read the kernel's. */
  readonly bootId: string | undefined;
  readonly runtimeDir: string;
  /** SQLite's file, or PostgreSQL's URL. */
  readonly database: string;
  /** This machine's name among those that share a PostgreSQL; empty with SQLite. */
  readonly node: string;
  /** Where SQLite's file is, or would be. */
  readonly databaseFile: string;
  readonly api: { readonly host: string; readonly port: number };
  /** The origin at which clients reach this node's API; undefined when it is not configured. */
  readonly apiUrl: string | undefined;
  readonly tls: {
    readonly mode: 'on' | 'proxy';
    readonly cert: string;
    readonly key: string;
    /** A copy of the pair that was used last. */
    readonly lastGood: string;
    readonly selfSigned: boolean;
    /** The host's name or address, for a self-signed pair. */
    readonly name: string;
    /** Whether `name` is BERTH_SFTP_HOST; otherwise it is the machine's own. */
    readonly isNameSet: boolean;
  };
  readonly sftp: { readonly host: string; readonly port: number };
  readonly environment: 'live' | 'test';
  /** Requests per account and clock minute. */
  readonly rateLimit: number;
  /** Requests without a key, per client address (IPv6: /64) and minute. */
  readonly unauthenticatedRateLimit: number;
  /** CIDRs of the proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. */
  readonly trustedProxies: readonly string[];
  readonly webhooks: {
    /** CIDRs that the destination guard lets through although it would block them. */
    readonly allow: readonly string[];
    /** A file of certificate authorities to trust beside those that Node knows. */
    readonly ca: string | undefined;
    /** Waits before the second, third and fourth attempt, in seconds. */
    readonly retryDelays: readonly [number, number, number];
  };
  /** Name patterns of uploads that are still to be renamed, with `*` for anything. */
  readonly tempNames: readonly string[];
  /** Name patterns of uploads that are listed, and never announced. */
  readonly unannouncedNames: readonly string[];
  /** How long neither an upload's name nor its folders' may change before it is announced; 0: it is announced at once. */
  readonly settleSeconds: number;
  /** Whether an upload is synced to the disk before it is announced. */
  readonly syncUploads: boolean;
  /** The checker that uploads have to pass before they are announced; undefined for none. */
  readonly check: CheckSettings | undefined;
  /** Where Prometheus reads the metrics, in plain HTTP. */
  readonly metrics: { readonly host: string; readonly port: number | 'off' };
  readonly dashboard: {
    readonly isOn: boolean;
    /** An address of its own; undefined: the API's. */
    readonly own: { readonly host: string; readonly port: number } | undefined;
    /** The origin at which browsers reach it; undefined for each request's `Host`. */
    readonly url: string | undefined;
    /** Whether people may sign in with a password. Links from the command line always work. */
    readonly hasPasswordLogin: boolean;
    readonly companyLogin: CompanyLogin | undefined;
  };
  /** How long transfers, audit rows and finished deliveries are kept. */
  readonly historyDays: number;
  /** With more directories than this, only those with a live or recent session are watched; scans cover the others. */
  readonly watchLimit: number;
  readonly logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** `auto`: text on a terminal and in the journal, otherwise JSON. */
  readonly logFormat: 'auto' | 'text' | 'json';
}

/** A Unix socket, or a port of a host. */
export type CheckPlace = { readonly path: string } | { readonly host: string; readonly port: number };

export type CheckBy =
  | { readonly kind: 'clamd'; readonly place: CheckPlace }
  /** The listener at this socket runs the program. */
  | { readonly kind: 'exec'; readonly socket: string };

export interface CheckSettings {
  readonly by: CheckBy;
  /** Whether files that could not be checked wait or are announced. */
  readonly whenUnavailable: 'wait' | 'pass';
  /** How long the check of one file may take. */
  readonly seconds: number;
  /** Larger files count as files that could not be checked. */
  readonly maxBytes: number;
}

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

const folder = v.pipe(
  v.string(),
  v.check(isAbsolute, 'must be an absolute path'),
  v.transform((path) => normalize(path).replace(/(?<=.)\/+$/, '')),
  // These paths are written into sshd's and PAM's configuration, where other characters would end an argument.
  v.regex(/^[\w./@+-]+$/, 'may hold only letters, digits and . _ / @ + -'),
);
const port = v.pipe(
  v.string(),
  v.regex(/^\d+$/, 'must be a port number'),
  v.transform(Number),
  v.maxValue(65_535, 'must be a port number'),
);
const hostName = v.pipe(
  v.string(),
  v.check(
    (text) => isIP(text) !== 0 || (text.length <= 253 && /^[\w-]+(\.[\w-]+)*\.?$/.test(text)),
    'must be a host name or an IP address, such as sftp.example.com: no URL and no port',
  ),
  // Clients write IPv6 addresses in the short form (RFC 5952), and look for that in their lists of host keys.
  v.transform((text) => (isIP(text) === 6 ? ipaddr.parse(text).toString() : text)),
);
const words = v.pipe(
  v.string(),
  v.transform((text) => text.split(/[\s,]+/).filter(Boolean)),
);
const cidr = v.pipe(v.string(), v.check(isCidr, 'must be CIDRs such as 10.0.0.0/8'));
const count = v.pipe(v.string(), v.regex(/^[1-9]\d{0,8}$/, 'must be a whole number above 0'), v.transform(Number));
/** An hour at most: programs rename within seconds, and `retention_days` removes files after a day at the earliest. */
const settling = v.pipe(
  v.string(),
  v.check((text) => /^\d{1,4}$/.test(text) && Number(text) <= 3600, 'must be a whole number from 0 to 3600'),
  v.transform(Number),
);
const delays = v.pipe(
  words,
  v.check(
    (parts) => parts.length === 3 && parts.every((part) => /^\d+(\.\d+)?$/.test(part)),
    'must be three numbers of seconds such as 10,60,300',
  ),
  v.transform(([second = '', third = '', fourth = '']) => [Number(second), Number(third), Number(fourth)] as const),
);
const bootId = v.optional(v.string());
const descriptors = v.optional(
  v.pipe(
    words,
    v.check((parts) => parts.every((part) => /^\d+$/.test(part)), 'must be numbers of open descriptors'),
    v.transform((parts) => parts.map(Number)),
  ),
  '',
);
const checker = v.pipe(
  v.string(),
  v.regex(
    /^(clamd:(\/[\w./@+-]+|([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5})|exec:\/[\w./@+-]+)$/,
    'must be clamd:/path/of/its/socket, clamd:HOST:PORT or exec:/path/of/a/program',
  ),
);
const publicUrl = v.pipe(
  v.string(),
  v.check(
    (text) => /^https:\/\/[^/?#@]+\/?$/.test(text) && URL.canParse(text),
    'must be an https:// address without a path',
  ),
  v.transform((text) => new URL(text).origin),
);

/** These are not settings: scripts/lib/log-sockets and the units set them. */
const FROM_SUPERVISOR = { BERTH_LOG_SOCKETS: descriptors, BERTH_BOOT_ID: bootId };

/**
 * The temporary names of common clients. `.*` are those of GNOME Files (`.giosaveXXXXXX`), Apache NiFi (`.NAME`), lftp
 * (`.in.NAME`) and rsync on a mounted directory (`.NAME.XXXXXX`). The others are of WinSCP (`.filepart`), KDE (`.part`),
 * rclone (`.partial`), Spring Integration (`.writing`), restic, and `sed -i` on a mounted directory, and of the folders of Hadoop and
 * Spark (`_temporary`, `.staging`).
 */
const TEMPORARY_NAMES =
  '.* *.filepart *.part *.partial *.tmp *.temp *.writing *.uploading *.inprogress *-restic-temp-* sed?????? _temporary';

const Environment = v.object({
  BERTH_STATE_DIR: v.optional(folder, FOLDERS.BERTH_STATE_DIR),
  BERTH_JAIL_DIR: v.optional(folder, FOLDERS.BERTH_JAIL_DIR),
  BERTH_RUNTIME_DIR: v.optional(folder, FOLDERS.BERTH_RUNTIME_DIR),
  ...FROM_SUPERVISOR,
  BERTH_API_HOST: v.optional(hostName, '::'),
  BERTH_API_PORT: v.optional(port, '8443'),
  BERTH_API_URL: v.optional(publicUrl),
  BERTH_TLS: v.optional(v.picklist(['on', 'proxy'], 'must be on or proxy'), 'on'),
  BERTH_TLS_CERT: v.optional(folder),
  BERTH_TLS_KEY: v.optional(folder),
  BERTH_SFTP_HOST: v.optional(hostName),
  BERTH_SFTP_PORT: v.optional(port, '2222'),
  BERTH_ENVIRONMENT: v.optional(v.picklist(['live', 'test'], 'must be live or test'), 'live'),
  BERTH_DATABASE_URL: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^(sqlite|file|postgres|postgresql):/, 'must be sqlite:/path or postgres://user:password@host/name'),
      // Commands and units run in different working folders.
      v.regex(/^(postgres|\w+:(\/\/)?\/(?!\/))/, 'must have an absolute path, as in sqlite:/var/lib/berth/berth.db'),
      v.check(
        (url) => !isPostgresUrl(url) || isOneServer(url),
        'must name one PostgreSQL server, a virtual address for several',
      ),
    ),
  ),
  BERTH_NODE: v.optional(
    v.pipe(v.string(), v.regex(/^[a-z\d][a-z\d.-]{0,62}$/, 'must be lowercase letters, digits, dots and dashes')),
  ),
  BERTH_RATE_LIMIT: v.optional(count, '120'),
  BERTH_UNAUTHENTICATED_RATE_LIMIT: v.optional(count, '60'),
  BERTH_TRUSTED_PROXIES: v.optional(v.pipe(words, v.array(cidr)), ''),
  BERTH_WEBHOOK_ALLOW: v.optional(v.pipe(words, v.array(cidr)), ''),
  BERTH_WEBHOOK_CA: v.optional(folder),
  BERTH_WEBHOOK_RETRY_DELAYS: v.optional(delays, '10,60,300'),
  BERTH_TEMP_NAMES: v.optional(words, TEMPORARY_NAMES),
  BERTH_UNANNOUNCED_NAMES: v.optional(words, ''),
  BERTH_SETTLE_SECONDS: v.optional(settling, '0'),
  BERTH_SYNC_UPLOADS: v.optional(v.picklist(['on', 'off'], 'must be on or off'), 'on'),
  BERTH_CHECK: v.optional(checker),
  BERTH_CHECK_UNAVAILABLE: v.optional(v.picklist(['wait', 'pass'], 'must be wait or pass'), 'wait'),
  BERTH_CHECK_SECONDS: v.optional(count, '300'),
  BERTH_CHECK_MAX_MIB: v.optional(count, '2048'),
  BERTH_METRICS_HOST: v.optional(hostName, '127.0.0.1'),
  BERTH_METRICS_PORT: v.optional(v.union([v.literal('off'), port], 'must be a port number or off'), '9464'),
  BERTH_DASHBOARD: v.optional(v.picklist(['on', 'off'], 'must be on or off'), 'on'),
  BERTH_DASHBOARD_HOST: v.optional(hostName),
  BERTH_DASHBOARD_PORT: v.optional(port),
  BERTH_DASHBOARD_URL: v.optional(publicUrl),
  BERTH_PASSWORD_LOGIN: v.optional(v.picklist(['on', 'off'], 'must be on or off'), 'on'),
  ...OIDC_SETTINGS,
  BERTH_HISTORY_DAYS: v.optional(count, '90'),
  BERTH_WATCH_LIMIT: v.optional(count, '20000'),
  BERTH_LOG_LEVEL: v.optional(
    v.picklist(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'must be a level such as info or debug'),
    'info',
  ),
  BERTH_LOG_FORMAT: v.optional(v.picklist(['auto', 'text', 'json'], 'must be auto, text or json'), 'auto'),
});

/** The names of all settings. */
export const SETTINGS: readonly string[] = Object.keys(Environment.entries).filter(
  (name) => !(name in FROM_SUPERVISOR),
);

type Variables = Readonly<Record<string, string | undefined>>;

type Settings = v.InferOutput<typeof Environment>;

/** What sshd's files depend on (`service/prepare.ts`). A mistake in any other setting does not concern sshd. */
export const OF_SSHD: readonly string[] = [
  'BERTH_STATE_DIR',
  'BERTH_JAIL_DIR',
  'BERTH_RUNTIME_DIR',
  'BERTH_SFTP_PORT',
  'BERTH_DATABASE_URL',
  'BERTH_NODE',
];

/** A mistake in the settings. */
interface Problem {
  /** The settings that it is in. */
  readonly names: readonly string[];
  readonly text: string;
}

/**
 * The configuration that an environment describes. An empty variable counts as unset, except for `BERTH_TEMP_NAMES`, where it means
 * that no name is temporary.
 * @throws {OperatorError} naming every variable that is wrong.
 */
export function readConfig(environment: Variables): Config {
  const { settings, problems } = examine(environment);
  if (settings === undefined || problems.length > 0) throw refusal(problems);
  return configOf(settings);
}

/**
 * The configuration for sshd's files. Other settings count as unset if they are wrong.
 * @returns also what is wrong with those.
 * @throws {OperatorError} naming every variable that is wrong and that sshd's files depend on.
 */
export function readForSshd(environment: Variables): { readonly config: Config; readonly ignored: readonly string[] } {
  const isOfSshd = ({ names }: Problem): boolean => names.every((name) => OF_SSHD.includes(name));
  const others = examine(environment).problems.filter((problem) => !isOfSshd(problem));
  const wrong = new Set(others.flatMap(({ names }) => names).filter((name) => !OF_SSHD.includes(name)));
  const { settings, problems } = examine(
    Object.fromEntries(Object.entries(environment).filter(([name]) => !wrong.has(name))),
  );
  const own = problems.filter(isOfSshd);
  if (settings === undefined || own.length > 0) throw refusal(own);
  return { config: configOf(settings), ignored: others.map(({ text }) => text) };
}

function refusal(problems: readonly Problem[]): OperatorError {
  return new OperatorError(`configuration: ${problems.map(({ text }) => text).join('; ')}`);
}

/** @returns the settings, if each of them is right by itself, and everything that is wrong. */
function examine(environment: Variables): { settings: Settings | undefined; problems: readonly Problem[] } {
  const given = Object.fromEntries(
    Object.entries(environment).filter(
      ([name, value]) => value !== undefined && (value !== '' || name === 'BERTH_TEMP_NAMES'),
    ),
  );
  const result = v.safeParse(Environment, given);
  const problems: Problem[] = (result.issues ?? []).map((issue) => {
    const name = v.getDotPath(issue)?.split('.')[0] ?? '?';
    return { names: [name], text: `${name} ${issue.message}` };
  });
  const pair = ['BERTH_TLS_CERT', 'BERTH_TLS_KEY'];
  if (!given['BERTH_TLS_CERT'] !== !given['BERTH_TLS_KEY']) {
    problems.push({ names: pair, text: 'BERTH_TLS_CERT and BERTH_TLS_KEY go together' });
  }
  if (given['BERTH_DASHBOARD_HOST'] && !given['BERTH_DASHBOARD_PORT']) {
    const text = 'BERTH_DASHBOARD_HOST needs a BERTH_DASHBOARD_PORT';
    problems.push({ names: ['BERTH_DASHBOARD_HOST'], text });
  }
  const oidc = ['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET', 'MAP'].map((part) => `BERTH_OIDC_${part}`);
  if (new Set(oidc.map((name) => given[name] === undefined)).size > 1) {
    problems.push({ names: oidc, text: `${oidc.join(', ')} go together` });
  }
  if (given['BERTH_PASSWORD_LOGIN'] === 'off' && !given['BERTH_OIDC_ISSUER']) {
    const text = 'BERTH_PASSWORD_LOGIN=off needs a BERTH_OIDC_ISSUER';
    problems.push({ names: ['BERTH_PASSWORD_LOGIN'], text });
  }
  if (!result.success) return { settings: undefined, problems };
  return { settings: result.output, problems: [...problems, ...sharedPorts(result.output)] };
}

/** Ports that two of berth's own listeners would have to share. sshd listens on every address. */
function sharedPorts(env: Settings): Problem[] {
  const { BERTH_API_HOST: apiHost, BERTH_DASHBOARD_HOST: dashboardHost = apiHost } = env;
  const listeners = [
    { name: 'BERTH_SFTP_PORT', host: '0.0.0.0', at: env.BERTH_SFTP_PORT },
    { name: 'BERTH_API_PORT', host: apiHost, at: env.BERTH_API_PORT },
    { name: 'BERTH_DASHBOARD_PORT', host: dashboardHost, at: env.BERTH_DASHBOARD_PORT ?? 0 },
  ];
  const all = ['0.0.0.0', '::'];
  return listeners.flatMap(({ name, host, at }, index) =>
    listeners
      .slice(index + 1)
      .filter((other) => at > 0 && other.at === at)
      .filter((other) => host === other.host || all.includes(host) || all.includes(other.host))
      .map((other) => {
        const text = `${name} and ${other.name} are both ${at}: choose another port for one of them`;
        return { names: [name, other.name], text };
      }),
  );
}

function configOf(env: Settings): Config {
  const name = env.BERTH_SFTP_HOST ?? hostname();
  return {
    stateDir: env.BERTH_STATE_DIR,
    jailDir: env.BERTH_JAIL_DIR,
    runtimeDir: env.BERTH_RUNTIME_DIR,
    logSockets: env.BERTH_LOG_SOCKETS,
    bootId: env.BERTH_BOOT_ID,
    ...databaseOf(env),
    api: { host: env.BERTH_API_HOST, port: env.BERTH_API_PORT },
    apiUrl: env.BERTH_API_URL,
    tls: {
      mode: env.BERTH_TLS,
      cert: env.BERTH_TLS_CERT ?? join(env.BERTH_STATE_DIR, 'tls', 'cert.pem'),
      key: env.BERTH_TLS_KEY ?? join(env.BERTH_STATE_DIR, 'tls', 'key.pem'),
      lastGood: join(env.BERTH_STATE_DIR, 'tls', 'last-good.pem'),
      selfSigned: env.BERTH_TLS_CERT === undefined,
      name,
      isNameSet: env.BERTH_SFTP_HOST !== undefined,
    },
    sftp: { host: name, port: env.BERTH_SFTP_PORT },
    environment: env.BERTH_ENVIRONMENT,
    rateLimit: env.BERTH_RATE_LIMIT,
    unauthenticatedRateLimit: env.BERTH_UNAUTHENTICATED_RATE_LIMIT,
    // The proxy that terminates TLS is on this machine, whatever proxies are in front of it.
    trustedProxies: [...(env.BERTH_TLS === 'proxy' ? LOOPBACK : []), ...env.BERTH_TRUSTED_PROXIES],
    webhooks: {
      allow: env.BERTH_WEBHOOK_ALLOW,
      ca: env.BERTH_WEBHOOK_CA,
      retryDelays: env.BERTH_WEBHOOK_RETRY_DELAYS,
    },
    tempNames: env.BERTH_TEMP_NAMES,
    unannouncedNames: env.BERTH_UNANNOUNCED_NAMES,
    settleSeconds: env.BERTH_SETTLE_SECONDS,
    syncUploads: env.BERTH_SYNC_UPLOADS === 'on',
    check: checkOf(env),
    metrics: { host: env.BERTH_METRICS_HOST, port: env.BERTH_METRICS_PORT },
    dashboard: {
      isOn: env.BERTH_DASHBOARD === 'on',
      own:
        env.BERTH_DASHBOARD_PORT === undefined
          ? undefined
          : { host: env.BERTH_DASHBOARD_HOST ?? env.BERTH_API_HOST, port: env.BERTH_DASHBOARD_PORT },
      url: env.BERTH_DASHBOARD_URL,
      hasPasswordLogin: env.BERTH_PASSWORD_LOGIN === 'on',
      companyLogin: companyLogin(env),
    },
    historyDays: env.BERTH_HISTORY_DAYS,
    watchLimit: env.BERTH_WATCH_LIMIT,
    logLevel: env.BERTH_LOG_LEVEL,
    logFormat: env.BERTH_LOG_FORMAT,
  };
}

/** Variables with the prefix that are not settings: they are for tests, or pass between berth's own programs. */
const NO_SETTING = /^BERTH_(NOTIFY_|TEST_|WRITE$)/;

/** Variables that look like settings but are not. */
export function unknownSettings(environment: Variables): string[] {
  const isUnknown = (name: string): boolean =>
    name.startsWith('BERTH_') && !Object.hasOwn(Environment.entries, name) && !NO_SETTING.test(name);
  return Object.keys(environment).filter(isUnknown);
}

function databaseOf(env: Settings): Pick<Config, 'database' | 'databaseFile' | 'node'> {
  const { BERTH_DATABASE_URL: url, BERTH_NODE: node } = env;
  const byDefault = join(env.BERTH_STATE_DIR, 'berth.db');
  if (url !== undefined && isPostgresUrl(url)) {
    return { database: url, databaseFile: byDefault, node: node ?? hostname().toLowerCase() };
  }
  const file = url?.replace(/^\w+:(\/\/(?=\/))?/, '') ?? byDefault;
  return { database: file, databaseFile: file, node: '' };
}

function checkOf(env: Settings): CheckSettings | undefined {
  const { BERTH_CHECK: text, BERTH_CHECK_UNAVAILABLE: whenUnavailable, BERTH_CHECK_SECONDS: seconds } = env;
  if (text === undefined) return undefined;
  const maxBytes = env.BERTH_CHECK_MAX_MIB * 1024 * 1024;
  const [, kind, where = ''] = /^(clamd|exec):(.*)$/.exec(text) ?? [];
  if (kind !== 'clamd') {
    return { by: { kind: 'exec', socket: join(env.BERTH_RUNTIME_DIR, 'check') }, whenUnavailable, seconds, maxBytes };
  }
  const [, host = '', at = ''] = /^(.*):(\d+)$/.exec(where) ?? [];
  const place = where.startsWith('/') ? { path: where } : { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(at) };
  return { by: { kind, place }, whenUnavailable, seconds, maxBytes };
}

/** libpq reads a comma between hosts as several servers (its manual, "Connection URIs"). */
function isOneServer(url: string): boolean {
  const [authority = ''] = url.replace(/^\w+:\/\//, '').split(/[/?]/);
  const hosts = URL.parse(url)?.searchParams.get('host') ?? '';
  return !authority.slice(authority.lastIndexOf('@') + 1).includes(',') && !hosts.includes(',');
}

function isCidr(text: string): boolean {
  const [network = '', prefix = '', ...rest] = text.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(network)] ?? -1;
  return rest.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
}

/** The origin at which clients reach one of our ports, as far as the settings tell: a proxy is taken to use port 443. */
export function originOf({ name, mode }: Config['tls'], own: number): string {
  return new URL(`https://${urlHost(name)}${mode === 'proxy' ? '' : `:${own}`}`).origin;
}

/** The origin at which people reach the API, and links. */
export function apiOrigin({ apiUrl, tls, api }: Pick<Config, 'apiUrl' | 'tls' | 'api'>): string {
  return apiUrl ?? originOf(tls, api.port);
}

/** Checks of the running service: its processes, its ports and its certificate. */
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { connect, isIP } from 'node:net';
import { type CheckBy, type Config, originOf } from '../../../foundation/base/config.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { counted, urlHost } from '../../../foundation/base/text.ts';
import { requestApi } from '../api.ts';
import { type Check, fail, type Finding, ok, oneLine, orOk, some, warn } from '../finding.ts';
import { pathsOf } from '../../../machine/sftp/paths.ts';
import { sshdCheck, startupsOf } from '../../../machine/sftp/sshd-listener.ts';
import { publicHostKeys } from '../../../machine/sftp/public-host-keys.ts';
import { command, serveProcess } from '../processes.ts';
import { X509Certificate } from 'node:crypto';
import { dirname } from 'node:path';
import { createSecureContext } from 'node:tls';
import { DAY, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import { problemOf } from '../../../foundation/base/files.ts';
import { checkerOf } from '../../../arrivals/checks/checker.ts';
import { type Checker, CheckerAway } from '../../../arrivals/checks/exchange.ts';
import { inspect } from '../../../foundation/db/inspect.ts';

/** How long sshd may take to send its banner. */
const TIMEOUT_MS = 5000;

export const checkServe: Check = async (config) => {
  const pid = serveProcess(config);
  if (pid === undefined) {
    return [fail('berth serve does not run', 'systemctl start berth; see why it ended: journalctl -u berth')];
  }
  const name = `berth serve (process ${pid})`;
  try {
    const { status } = await requestApi(config, { method: 'GET', path: '/healthz' });
    if (status === 200) return [ok(`${name} runs and is healthy`), ...dashboardAt(config)];
    return [fail(`${name} is not healthy: it answers ${status}`, 'see the reason: journalctl -u berth')];
  } catch (error) {
    if (/handshake failure/.test(errorMessage(error))) {
      return [fail(`${name} runs, but its API has no certificate`, 'follow the line "certificate"')];
    }
    return [fail(`${name} does not answer: ${errorMessage(error)}`, 'systemctl restart berth')];
  }
};

/** Where people find the dashboard. Only a proxy knows its own address. */
function dashboardAt({ dashboard, api, tls }: Config): Finding[] {
  if (!dashboard.isOn) return [];
  const { host, port } = dashboard.own ?? api;
  if (tls.mode === 'proxy') return [ok(`the dashboard is below /dashboard of the proxy for ${urlHost(host)}:${port}`)];
  return [ok(`the dashboard is at ${originOf(tls, port)}/dashboard`)];
}

/**
 * Asks the kernel first whether the listener is ours. A connection that ends before a login leaves lines in sshd's log, makes sshd
 * penalize the address, and may be refused by a sshd with many logins under way.
 */
export const checkSshd: Check = async (config) => {
  const { port } = config.sftp;
  if (sshdCheck(pathsOf(config), port)()) {
    const problems = [await unitProblem(), crowd(config)].filter((found) => found !== undefined);
    return [...problems, ok(`sshd listens on port ${port}`)];
  }
  const remedy = 'systemctl start berth-sshd; see why it ended: journalctl -u berth-sshd';
  let banner: string;
  try {
    banner = await bannerAt(port);
  } catch (error) {
    return [fail(`no sshd answers on port ${port}: ${errorMessage(error)}`, remedy)];
  }
  const freePort = `${await holderOf(port)}, or choose another BERTH_SFTP_PORT; then: systemctl restart berth-sshd`;
  if (!banner.startsWith('SSH-2.0-OpenSSH')) {
    return [fail(`another program answers on port ${port}: ${banner.slice(0, 60)}`, freePort)];
  }
  if (!(await hasOurKeys(config))) {
    return [fail(`another sshd answers on port ${port}: its host keys are not those of berth`, freePort)];
  }
  return [await unitProblem(), ok(`sshd listens on port ${port} (${banner})`)].filter((found) => found !== undefined);
};

/** So many connections that have not logged in yet that sshd closes new ones. */
function crowd(config: Config): Finding | undefined {
  const startups = startupsOf(pathsOf(config));
  if (startups === undefined || startups.waiting < startups.some) return undefined;
  const { waiting, all } = startups;
  return warn(
    `${waiting} connections have not logged in yet, so sshd closes ${waiting < all ? 'some' : 'all'} new ones`,
    `see where they come from: ss -Htn sport = :${config.sftp.port}; then block those networks at the firewall`,
  );
}

/** The first line that the listener there sends. @throws {Error} when there is none, or it sends nothing. */
async function bannerAt(port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(TIMEOUT_MS) })) as [Buffer];
    return data.toString('latin1').split(/[\r\n]/)[0] ?? '';
  } finally {
    socket.destroy();
  }
}

/** Whether sshd identifies itself by one of berth's keys. True when ssh-keyscan finds no key. */
async function hasOurKeys(config: Config): Promise<boolean> {
  const { stdout } = await command('ssh-keyscan', ['-T', '5', '-p', String(config.sftp.port), '127.0.0.1']);
  const offered = stdout.split('\n').flatMap((line) => /^[^#]\S* \S+ (\S+)/.exec(line)?.[1] ?? []);
  if (offered.length === 0) return true;
  const { inUse, next } = await publicHostKeys(pathsOf(config).hostKeys, config.sftp);
  const ours = [...inUse, ...next].map(({ known_hosts: line }) => line.split(' ')[2]);
  return offered.some((key) => ours.includes(key));
}

/** The remedy when another program holds a port, with its name if we can see it. */
async function holderOf(port: number): Promise<string> {
  const { stdout } = await command('ss', ['-Hltnp', `sport = :${port}`]);
  const [, name, pid] = /users:\(\("([^"]+)",pid=(\d+)/.exec(stdout) ?? [];
  return pid === undefined ? 'end that program' : `end ${name} (process ${pid})`;
}

/** A problem of sshd's systemd unit, if there is one. The port may still be open, by an sshd that was started earlier. */
async function unitProblem(): Promise<Finding | undefined> {
  if (!existsSync('/run/systemd/system')) return undefined;
  const { stdout } = await command('systemctl', [
    'show',
    '--property=LoadState,ActiveState,SubState',
    'berth-sshd.service',
  ]);
  const {
    LoadState: load,
    ActiveState: active = '',
    SubState: sub,
  } = Object.fromEntries(stdout.split('\n').map((line) => line.split('='))) as Record<string, string | undefined>;
  if (load !== 'loaded' || ['active', 'reloading'].includes(active)) return undefined;
  return fail(`systemd reports berth-sshd.service as ${active} (${sub})`, 'see the reason: journalctl -u berth-sshd');
}

// Checks that the API's certificate exists, belongs to its key, and does not expire soon.

/** Renewals usually happen 30 days before. */
const SOON_DAYS = 21;

const UNSEEN = 'move it to /etc/berth, or systemctl edit berth: [Service] BindReadOnlyPaths=FOLDER';

export const checkCertificate: Check = (config, clock) => {
  const { mode, cert, key, lastGood, selfSigned } = config.tls;
  if (mode === 'proxy') return [ok('a proxy terminates TLS')];
  const settings = { BERTH_TLS_CERT: cert, BERTH_TLS_KEY: key };
  const [problem] = Object.entries(settings).flatMap(([name, file]) => problemOf(name, dirname(file)) ?? []);
  if (problem !== undefined) return [fail(problem, 'certbot has it in /etc/letsencrypt/live/NAME')];
  const missing = [cert, key].find((file) => !existsSync(file));
  if (missing !== undefined) {
    return [
      fail(
        `${missing} is missing`,
        selfSigned ? 'start berth, which makes one' : 'see BERTH_TLS_CERT and BERTH_TLS_KEY',
      ),
    ];
  }
  const renew = selfSigned
    ? `remove ${cert} and restart berth: it makes another, which clients then have to trust`
    : 'renew it, for example with certbot renew';
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  try {
    createSecureContext(pair);
  } catch (error) {
    const meanwhile = existsSync(lastGood) ? 'the last good pair stays in use until then' : 'without one the API waits';
    const text = `${cert} with the key ${key} cannot be used: ${errorMessage(error)}`;
    return [fail(text, `install a certificate and a key that belong together; ${meanwhile}`)];
  }
  const certificate = new X509Certificate(pair.cert);
  const now = clock.now();
  const days = Math.floor((certificate.validToDate.getTime() * 1000 - now) / DAY);
  const { name, isNameSet } = config.tls;
  const names = namesIn(certificate);
  const hidden = unseen(config, [cert, key]);
  return orOk(
    [
      hidden !== undefined &&
        fail(`berth serve does not see ${hidden}: its unit can read only /etc, /usr and its own folders`, UNSEEN),
      (statSync(key).mode & 0o007) !== 0 && fail(`everybody can read ${key}`, `chmod o= ${key}`),
      days < 0 && fail(`${cert} expired ${counted(-days, 'day')} ago`, renew),
      days >= 0 && days < SOON_DAYS && warn(`${cert} expires in ${counted(days, 'day')}`, renew),
      !isNamed(certificate, name, names, selfSigned) &&
        warn(
          `${cert} does not name ${name}: ${names.length === 0 ? 'it names no host' : `it is for ${some(names)}`}`,
          selfSigned
            ? `${isNameSet ? '' : 'set BERTH_SFTP_HOST to the name that clients know, then '}restart berth: it makes another, which clients have to trust`
            : 'set BERTH_SFTP_HOST to the name that clients know, or get a certificate for it',
        ),
      certificate.validFromDate.getTime() * 1000 > now &&
        fail(`${cert} is not valid yet`, "set the machine's clock: timedatectl set-ntp true"),
    ],
    `${cert} is valid for ${counted(days, 'more day')}${names.length === 0 ? '' : `, for ${some(names)}`}`,
  );
};

/** The first file that exists, but not in the file system that the service sees (proc_pid_root(5)). */
function unseen(config: Config, files: readonly string[]): string | undefined {
  const pid = serveProcess(config);
  return pid === undefined ? undefined : files.find((file) => !existsSync(`/proc/${pid}/root${file}`));
}

function namesIn({ subjectAltName = '' }: X509Certificate): string[] {
  return [...subjectAltName.matchAll(/(?:DNS|IP Address):([^,]+)/g)].map(([, name = '']) => name);
}

/**
 * Whether the certificate fits the name. If it is not self-signed, the API may have another name in the same domain than the SFTP server.
 */
function isNamed(certificate: X509Certificate, name: string, names: readonly string[], selfSigned: boolean): boolean {
  if (isIP(name) !== 0) return !selfSigned || certificate.checkIP(name) !== undefined;
  if (certificate.checkHost(name) !== undefined || !name.includes('.')) return true;
  const domain = name.split('.').slice(-2).join('.');
  return !selfSigned && names.some((each) => each === domain || each.endsWith(`.${domain}`));
}

// Checks that the checker of uploads answers, and how many files wait for it, or to be announced.

/** How long the checker may take to identify itself. */
const TIMEOUT_SECONDS = 10;
/** After this long, the checker apparently cannot check a file. */
const LATE_AFTER: Micros = 900 * SECOND;

export const checkUploadChecker: Check = async ({ check, settleSeconds, database }, clock) => {
  const due = clock.now() - settleSeconds * SECOND;
  await using inspection = await inspect(database);
  const { waiting, oldest } = await inspection.db
    .selectFrom('files')
    .select(({ fn }) => [fn.countAll<number>().as('waiting'), fn.min<Micros | null>('uploaded_at').as('oldest')])
    .where('state', '=', 'checking')
    .where('named_at', '<=', due)
    .executeTakeFirstOrThrow();
  const { rejected } = await inspection.db
    .selectFrom('quarantine')
    .select(({ fn }) => fn.countAll<number>().as('rejected'))
    .executeTakeFirstOrThrow();
  const late = oldest !== null && oldest < due - LATE_AFTER;
  if (!check) {
    if (!late) return [ok('uploads are announced without a check (BERTH_CHECK)')];
    return [warn(`${waitingFiles(waiting)} to be announced, the oldest for over 15 minutes`, LATE)];
  }
  const text = `${waitingFiles(waiting)} for a check, ${rejected} in the quarantine`;
  return [
    await answers(check.by, checkerOf(check.by), text),
    ...(late ? [warn(`${waitingFiles(waiting)} for a check, the oldest for over 15 minutes`, LATE)] : []),
  ];
};

const LATE = 'see the reason in journalctl -u berth, and the files in berth quarantine list';

async function answers(by: CheckBy, { hello }: Checker, text: string): Promise<Finding> {
  try {
    return ok(oneLine(`${await hello(TIMEOUT_SECONDS)}: ${text}`));
  } catch (error) {
    return fail(oneLine(`${errorMessage(error)}: ${text}`), remedyOf(by, error));
  }
}

function remedyOf(by: CheckBy, error: unknown): string {
  if (by.kind === 'clamd') return 'see whether clamd runs: systemctl status clamav-daemon';
  if (error instanceof CheckerAway) {
    return 'systemctl enable --now berth-check.socket, and see journalctl -u "berth-check@*"';
  }
  return 'put the program there, for every user to read and run (chmod 755), or correct BERTH_CHECK';
}

function waitingFiles(files: number): string {
  return files === 1 ? '1 file waits' : `${files} files wait`;
}

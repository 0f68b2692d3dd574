/**
 * The API's certificate: the operator's pair, or a self-signed one that is made at the first start and kept, so that
 * clients can trust it as their CA. A renewed pair is used from the next connection on, and no connection is dropped.
 * A pair that cannot be used is reported once, and the one before it stays, over a restart too: a copy of it is kept.
 */
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { promisify } from 'node:util';
import type { Background } from '../base/background.ts';
import type { Config } from '../base/config.ts';
import { errorCode, errorMessage, OperatorError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { sync } from '../base/sync.ts';
import { isThere } from '../base/there.ts';

export interface TlsPair {
  /** PEM. */
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Valid for ten years: nobody renews it, and clients trust this very certificate. */
const SELF_SIGNED =
  '-x509 -nodes -newkey=ec -pkeyopt=ec_paramgen_curve:P-256 -days=3650 -subj=/CN=berth' +
  ' -addext=basicConstraints=critical,CA:FALSE -addext=extendedKeyUsage=serverAuth';

type Files = Pick<Config['tls'], 'cert' | 'key'>;
type LastGood = Config['tls']['lastGood'];

/**
 * The pair that the configuration names; a missing self-signed one is made first.
 * @throws {OperatorError} when it cannot be read, made or used.
 */
export async function loadTlsPair({ cert, key, selfSigned, name }: Config['tls']): Promise<TlsPair> {
  if (selfSigned && !(isThere(cert) && isThere(key))) await makeSelfSigned(cert, key, ownNames(name));
  return readTlsPair({ cert, key });
}

/** @throws {OperatorError} when the pair cannot be read or used: a key of another certificate, for one. */
function readTlsPair({ cert, key }: Files): TlsPair {
  try {
    const pair = { cert: readFileSync(cert), key: readFileSync(key) };
    createSecureContext(pair);
    return pair;
  } catch (error) {
    const message = `the certificate ${cert} with the key ${key} cannot be used: ${errorMessage(error)}`;
    throw new OperatorError(message + hint(error), { cause: error });
  }
}

/** The unit has a root folder of its own, in which most of the machine is not there. */
function hint(error: unknown): string {
  if (!['ENOENT', 'EACCES'].includes(errorCode(error) ?? '')) return '';
  return '; under systemd berth sees only /etc, /usr and its own folders, not /root or /home: put both into /etc/berth, or add BindReadOnlyPaths= with systemctl edit berth';
}

/** Whether its certificate has expired. */
function isOver({ cert }: TlsPair): boolean {
  return new X509Certificate(cert).validToDate.getTime() < Date.now();
}

export interface FirstPair {
  /** Undefined when there is none to serve with. */
  readonly pair: TlsPair | undefined;
  /** Why that is not the pair of the configuration; empty when it is. */
  readonly trouble: string;
}

/** The pair to start with: the configuration's, or the last good one when that cannot be used. */
export async function firstPair(tls: Config['tls'], log: Log): Promise<FirstPair> {
  try {
    const pair = await loadTlsPair(tls);
    keep(pair, tls.lastGood, log);
    return { pair, trouble: '' };
  } catch (error) {
    const trouble = errorMessage(error);
    const pair = lastPair(tls.lastGood);
    if (pair)
      log.error({ reason: trouble }, 'the certificate cannot be used: the last good one stays until it is repaired');
    else log.error({ reason: trouble }, 'the API waits for a certificate that can be used; everything else goes on');
    return { pair, trouble };
  }
}

/** Both halves in one file, so that they belong together. */
function lastPair(file: LastGood): TlsPair | undefined {
  try {
    return readTlsPair({ cert: file, key: file });
  } catch {
    return undefined;
  }
}

function keep({ cert, key }: TlsPair, file: LastGood, log: Log): void {
  const both = Buffer.concat([cert, Buffer.from('\n'), key]);
  try {
    if (isThere(file) && readFileSync(file).equals(both)) return;
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    writeFileSync(`${file}.new`, both, { mode: 0o600, flush: true });
    renameSync(`${file}.new`, file);
    sync(dirname(file));
  } catch (error) {
    log.warn({ reason: errorMessage(error) }, 'no copy of the certificate could be kept');
  }
}

/** This machine's names and addresses, as openssl writes them; nobody uses link-local addresses in URLs. */
function ownNames(name: string): string[] {
  const all = new Set(['localhost', '127.0.0.1', '::1', hostname(), name, ...ownAddresses()]);
  return [...all]
    .filter((each) => /^[\w.:-]+$/.test(each) && !/^fe80:/i.test(each))
    .map((each) => (isIP(each) ? `IP:${each}` : `DNS:${each}`));
}

/** This machine's addresses from the kernel's files: the unit forbids netlink, which the usual functions need. */
function ownAddresses(): string[] {
  const read = (file: string): string => (isThere(file) ? readFileSync(file, 'latin1') : '');
  const ipv4 = read('/proc/net/fib_trie').matchAll(/\|-- ([\d.]+)\n *\/32 host LOCAL/g);
  const ipv6 = read('/proc/net/if_inet6').matchAll(/^([\da-f]{32}) /gm);
  return [
    ...[...ipv4].map(([, address = '']) => address),
    ...[...ipv6].map(([, hex = '']) => hex.replace(/.{4}(?!$)/g, '$&:')),
  ];
}

/** Made beside its place and renamed, the key first: a crash leaves no certificate without its key. */
async function makeSelfSigned(cert: string, key: string, names: readonly string[]): Promise<void> {
  mkdirSync(dirname(cert), { recursive: true, mode: 0o755 });
  const work = mkdtempSync(join(dirname(cert), '.new-'));
  try {
    const newCert = join(work, 'cert.pem');
    const newKey = join(work, 'key.pem');
    // openssl makes a new key file 0600 (openssl-req(1), -keyout).
    await promisify(execFile)('openssl', [
      'req',
      ...SELF_SIGNED.split(' '),
      `-addext=subjectAltName=${names.join(',')}`,
      `-keyout=${newKey}`,
      `-out=${newCert}`,
    ]);
    for (const file of [newKey, newCert]) sync(file);
    renameSync(newKey, key);
    renameSync(newCert, cert);
    sync(dirname(cert));
  } catch (error) {
    const message = `openssl could not make a certificate in ${dirname(cert)}: ${errorMessage(error)}`;
    throw new OperatorError(message, { cause: error });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

export interface CertificateOptions {
  readonly tls: Files & Pick<Config['tls'], 'lastGood'>;
  readonly background: Background;
  readonly log: Log;
  /** The pair in use so far. */
  readonly first: FirstPair;
  /** Puts a new pair, known to be good, to use. */
  use(pair: TlsPair): void;
  /** Between looks, in ms. */
  readonly interval?: number;
}

/**
 * Follows the files by their contents, at intervals: certbot swaps links, other tools rename or write in place, and a
 * mount may be swapped as a whole, so no one event tells of them all.
 */
export function followCertificate({ tls, background, log, first, use, interval = 10_000 }: CertificateOptions) {
  let inUse = first.pair;
  let { trouble } = first;
  let reported = trouble;

  function look({ patient }: { patient: boolean }): void {
    const before = trouble;
    try {
      const found = readTlsPair(tls);
      const isSame = inUse && found.cert.equals(inUse.cert) && found.key.equals(inUse.key);
      if (!isSame && inUse && isOver(found) && !isOver(inUse)) throw new OperatorError(`${tls.cert} has expired`);
      trouble = reported = '';
      if (isSame) return;
      use(found);
      inUse = found;
      keep(found, tls.lastGood, log);
      log.info({ cert: tls.cert }, 'the certificate has changed: new connections get the new one');
    } catch (error) {
      trouble = errorMessage(error);
      // Seen once, it may be a pair of which only one half is replaced so far.
      if (trouble === reported || (patient && trouble !== before)) return;
      reported = trouble;
      log.error({ reason: trouble }, 'the new certificate cannot be used: the one before it stays');
    }
  }

  const loop = background.start('certificate', { every: interval }, async () => look({ patient: true }));
  return {
    /** Looks now, and reports what is wrong at once. */
    look: () => look({ patient: false }),
    /** Whether the files hold a pair that is not used. */
    isRefused: () => trouble !== '',
    close: loop.close,
  };
}

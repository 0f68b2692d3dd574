/**
 * The API's certificate: the operator's pair of certificate and key, or a self-signed pair that is made at the first start and
 * kept, so that clients can trust it as their CA. A renewed pair is used from the next connection on, and no connection is
 * dropped. A pair that cannot be used is reported once, and the previous one stays in use, even after a restart, since a copy
 * of it is kept.
 */
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { promisify } from 'node:util';
import type { Background } from '../../foundation/base/background.ts';
import type { Config } from '../../foundation/base/config.ts';
import { errorCode, errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { isThere, problemOf, sync } from '../../foundation/base/files.ts';

export interface TlsPair {
  /** PEM. */
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Valid for ten years, since it is never renewed, and clients trust exactly this certificate. */
const SELF_SIGNED =
  '-x509 -nodes -newkey=ec -pkeyopt=ec_paramgen_curve:P-256 -days=3650 -subj=/CN=berth' +
  ' -addext=basicConstraints=critical,CA:FALSE -addext=extendedKeyUsage=serverAuth';

type Files = Pick<Config['tls'], 'cert' | 'key'>;
type LastGood = Config['tls']['lastGood'];

/**
 * The pair that the configuration names. If it is self-signed and missing, it is made first.
 * @throws {OperatorError} when it cannot be read, made or used.
 */
export async function loadTlsPair({ cert, key, selfSigned, name }: Config['tls']): Promise<TlsPair> {
  if (selfSigned && !(isThere(cert) && isThere(key))) await makeSelfSigned(cert, key, ownNames(name));
  return readTlsPair({ cert, key });
}

/** @throws {OperatorError} when the pair cannot be read or used, for example because the key belongs to another certificate. */
function readTlsPair({ cert, key }: Files): TlsPair {
  try {
    const pair = { cert: readFileSync(cert), key: readFileSync(key) };
    createSecureContext(pair);
    return pair;
  } catch (error) {
    const problem =
      problemOf('BERTH_TLS_CERT', dirname(cert)) ?? problemOf('BERTH_TLS_KEY', dirname(key)) ?? errorMessage(error);
    const message = `the certificate ${cert} with the key ${key} cannot be used: ${problem}`;
    throw new OperatorError(message + hint(error), { cause: error });
  }
}

/** The systemd unit has a root folder of its own, without most of the machine's folders. */
function hint(error: unknown): string {
  if (!['ENOENT', 'EACCES'].includes(errorCode(error) ?? '')) return '';
  return '; under systemd berth sees only /etc, /usr and its own folders, not /root or /home: put both into /etc/berth, or add BindReadOnlyPaths= with systemctl edit berth';
}

/** Whether the certificate has expired. */
function isOver({ cert }: TlsPair): boolean {
  return new X509Certificate(cert).validToDate.getTime() < Date.now();
}

export interface FirstPair {
  /** Undefined when no pair can be used. */
  readonly pair: TlsPair | undefined;
  /** Why this is not the configured pair; empty when it is. */
  readonly trouble: string;
}

/**
 * The pair to start with: the configured one or, when that cannot be used or has expired, the last good one. A self-signed pair that
 * lacks the name of the settings is replaced.
 */
export async function firstPair(tls: Config['tls'], log: Log): Promise<FirstPair> {
  try {
    if (lacksName(tls)) {
      await makeSelfSigned(tls.cert, tls.key, ownNames(tls.name));
      log.warn(
        { cert: tls.cert },
        `made another self-signed certificate, for ${tls.name}: clients have to trust this one`,
      );
    }
    const pair = await loadTlsPair(tls);
    if (isOver(pair)) {
      const previous = lastPair(tls.lastGood);
      if (previous && !isOver(previous)) throw new OperatorError(`${tls.cert} has expired`);
      log.error({ cert: tls.cert }, 'the certificate has expired: clients refuse it until it is renewed');
    }
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

/** Only BERTH_SFTP_HOST counts: the machine's own name may differ after a restore, and clients trust the certificate of the backup. */
function lacksName({ cert, key, selfSigned, name, isNameSet }: Config['tls']): boolean {
  if (!selfSigned || !isNameSet || !isThere(cert) || !isThere(key)) return false;
  try {
    const certificate = new X509Certificate(readFileSync(cert));
    return (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name)) === undefined;
  } catch {
    return false; // it cannot be used, which is reported
  }
}

/** The last good pair. Certificate and key are in one file, so that they always match. */
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

/** This machine's names and addresses in openssl's notation, without link-local addresses, which nobody uses in URLs. */
function ownNames(name: string): string[] {
  const all = new Set(['localhost', '127.0.0.1', '::1', hostname(), name, ...ownAddresses()]);
  return [...all]
    .filter((each) => /^[\w.:-]+$/.test(each) && !/^fe80:/i.test(each))
    .map((each) => (isIP(each) ? `IP:${each}` : `DNS:${each}`));
}

/** This machine's addresses, from the kernel's files, since the unit forbids netlink, which the usual functions need. */
function ownAddresses(): string[] {
  const read = (file: string): string => (isThere(file) ? readFileSync(file, 'latin1') : '');
  const ipv4 = read('/proc/net/fib_trie').matchAll(/\|-- ([\d.]+)\n *\/32 host LOCAL/g);
  const ipv6 = read('/proc/net/if_inet6').matchAll(/^([\da-f]{32}) /gm);
  return [
    ...[...ipv4].map(([, address = '']) => address),
    ...[...ipv6].map(([, hex = '']) => hex.replace(/.{4}(?!$)/g, '$&:')),
  ];
}

/** Makes both files in a temporary folder and renames them, the key first: a crash leaves no certificate without its key. */
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
  /** Starts to use a new pair, which is known to be good. */
  use(pair: TlsPair): void;
  readonly intervalMs?: number;
}

/**
 * Reads the files at intervals and compares their contents. certbot replaces links, other tools rename or write in place, and a
 * mount may be replaced as a whole: no single event reports all of these.
 */
export function followCertificate({ tls, background, log, first, use, intervalMs = 10_000 }: CertificateOptions) {
  let inUse = first.pair;
  let { trouble } = first;
  let reported = trouble;

  function inspect({ isPatient }: { isPatient: boolean }): void {
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
      // The first time, only one half of the pair may be replaced so far.
      if (trouble === reported || (isPatient && trouble !== before)) return;
      reported = trouble;
      log.error({ reason: trouble }, 'the new certificate cannot be used: the previous one stays in use');
    }
  }

  const loop = background.start('certificate', { every: intervalMs }, async () => inspect({ isPatient: true }));
  return {
    /** Reads the files now, and reports at once what is wrong. */
    inspect: () => inspect({ isPatient: false }),
    /** Whether the files have a pair that cannot be used. */
    isRefused: () => trouble !== '',
    close: loop.close,
  };
}

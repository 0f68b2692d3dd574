/**
 * The API's certificate: the operator's pair, or a self-signed one that is made at the first start and kept, so that
 * clients can be given it as their CA.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { promisify } from 'node:util';
import type { Config } from '../config.ts';
import { errorMessage, OperatorError } from '../errors.ts';

export interface TlsPair {
  /** PEM. */
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Ten years: nobody renews it, and clients trust this very certificate. */
const DAYS = '3650';

/**
 * The pair that the configuration names, made first when it is to be self-signed and is not there.
 * @throws {OperatorError} when it cannot be read, made or used.
 */
export async function loadTlsPair({ cert, key, selfSigned }: Config['tls']): Promise<TlsPair> {
  if (selfSigned && !(existsSync(cert) && existsSync(key))) await makeSelfSigned(cert, key);
  return readTlsPair({ cert, key });
}

/**
 * The pair as it is on the disk.
 * @throws {OperatorError} when it cannot be read or used: a key of another certificate, for one.
 */
export function readTlsPair({ cert, key }: Pick<Config['tls'], 'cert' | 'key'>): TlsPair {
  try {
    const pair = { cert: readFileSync(cert), key: readFileSync(key) };
    createSecureContext(pair);
    return pair;
  } catch (error) {
    throw new OperatorError(`the certificate ${cert} with the key ${key} cannot be used: ${errorMessage(error)}`, {
      cause: error,
    });
  }
}

/** Made beside its place and renamed, the key first: a crash leaves no certificate without its key. */
async function makeSelfSigned(cert: string, key: string): Promise<void> {
  mkdirSync(dirname(cert), { recursive: true, mode: 0o755 });
  const work = mkdtempSync(join(dirname(cert), '.new-'));
  try {
    const [newCert, newKey] = [join(work, 'cert.pem'), join(work, 'key.pem')];
    const names = ['DNS:localhost', 'IP:127.0.0.1', 'IP:::1', `DNS:${hostname()}`];
    // openssl makes a new key file 0600 (openssl-req(1), -keyout).
    await promisify(execFile)('openssl', [
      'req',
      '-x509',
      '-nodes',
      '-newkey=ec',
      '-pkeyopt=ec_paramgen_curve:P-256',
      `-days=${DAYS}`,
      '-subj=/CN=berth',
      `-addext=subjectAltName=${names.join(',')}`,
      '-addext=basicConstraints=critical,CA:FALSE',
      '-addext=extendedKeyUsage=serverAuth',
      `-keyout=${newKey}`,
      `-out=${newCert}`,
    ]);
    renameSync(newKey, key);
    renameSync(newCert, cert);
  } catch (error) {
    throw new OperatorError(`openssl could not make a certificate in ${dirname(cert)}: ${errorMessage(error)}`, {
      cause: error,
    });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

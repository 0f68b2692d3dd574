/**
 * A self-signed certificate for 127.0.0.1. `test/run.ts` makes one for its run, and tests that start a berth copy it: four hundred calls of
 * openssl cost as much as a dozen test files.
 */
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../src/foundation/base/config.ts';
import { sync } from '../../src/foundation/base/files.ts';
import { loadTlsPair } from '../../src/interfaces/http/certificate.ts';

const MADE = 'TEST_CERTIFICATE';
const NAME = '127.0.0.1';

const filesIn = (folder: string) => ({ cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') });

/** Makes it in a folder, for the processes that this one starts. */
export async function makeCertificate(folder: string): Promise<void> {
  await loadTlsPair({ ...filesIn(folder), mode: 'on', lastGood: '', selfSigned: true, name: NAME, isNameSet: true });
  process.env[MADE] = folder;
}

/** Puts it where berth would make its own. Without a run that has made one, berth does. */
export function copyCertificate({ cert, key, selfSigned, name }: Config['tls']): void {
  const made = process.env[MADE];
  if (made === undefined || !selfSigned || name !== NAME || existsSync(cert)) return;
  mkdirSync(dirname(cert), { recursive: true });
  const files = filesIn(made);
  copyFileSync(files.key, key);
  copyFileSync(files.cert, cert);
  // It is there after a power cut, as berth's own is.
  for (const path of [key, cert, dirname(cert)]) sync(path);
}

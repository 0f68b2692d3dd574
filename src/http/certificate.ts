/**
 * Follows the certificate's files while the API runs: a renewed pair is used from the next connection on, and no
 * connection is dropped. A pair that cannot be used is reported, and the one before it stays.
 *
 * Looks at the contents, at intervals: certbot swaps links, other tools rename or write in place, and a mount may be
 * swapped as a whole, for all of which there is no one event.
 */
import type { Config } from '../config.ts';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';
import { readTlsPair, type TlsPair } from './tls.ts';

/** How often the files are looked at, in ms. */
const INTERVAL = 10_000;

export interface CertificateOptions {
  readonly tls: Pick<Config['tls'], 'cert' | 'key'>;
  readonly log: Log;
  /** The pair in use so far. */
  readonly pair: TlsPair;
  /** Puts a new pair, known to be good, to use. */
  use(pair: TlsPair): void;
  readonly interval?: number;
}

export interface CertificateFollower {
  /** Looks now, and reports what is wrong at once. */
  look(): void;
  close(): void;
}

export function followCertificate({
  tls,
  log,
  use,
  interval = INTERVAL,
  ...options
}: CertificateOptions): CertificateFollower {
  let { pair } = options;
  let trouble = '';
  let reported = '';

  function read(): string {
    try {
      const found = readTlsPair(tls);
      if (found.cert.equals(pair.cert) && found.key.equals(pair.key)) return '';
      use(found);
      pair = found;
      log.info({ cert: tls.cert }, 'the certificate has changed: new connections get the new one');
      return '';
    } catch (error) {
      return errorMessage(error);
    }
  }

  /** The same trouble twice in a row: once may be a pair of which one half is replaced so far. */
  function look({ patient }: { patient: boolean }): void {
    const before = trouble;
    trouble = read();
    if (trouble === '') reported = '';
    if (trouble === reported || (patient && trouble !== before)) return;
    reported = trouble;
    log.error({ reason: trouble }, 'the new certificate cannot be used: the one before it stays');
  }

  const timer = setInterval(look, interval, { patient: true }).unref();
  return { look: () => look({ patient: false }), close: () => clearInterval(timer) };
}

/** Whose certificates of webhook receivers are trusted. */
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { errorMessage } from '../errors.ts';
import type { Log } from '../log.ts';

/** Node's authorities and those in the file; Node's alone, said in the log, when it cannot be read. */
export function trustedWith(file: string | undefined, log: Log): SecureContext | undefined {
  if (file === undefined) return undefined;
  try {
    return createSecureContext({ ca: [...getCACertificates(), readFileSync(file, 'utf8')] });
  } catch (error) {
    const reason = errorMessage(error);
    log.error(
      { reason },
      `BERTH_WEBHOOK_CA: ${file} cannot be used; receivers with certificates of its own are refused`,
    );
    return undefined;
  }
}

/** The certificate authorities that webhook receivers may use. */
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { errorMessage } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';

/**
 * Trusts Node's authorities and those in the file. If the file cannot be read, logs that and returns undefined, which
 * means Node's alone.
 */
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

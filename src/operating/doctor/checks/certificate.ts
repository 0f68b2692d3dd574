/** Checks that the API's certificate exists, belongs to its key, and does not expire soon. */
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { dirname } from 'node:path';
import { createSecureContext } from 'node:tls';
import { DAY } from '../../../foundation/base/clock.ts';
import type { Config } from '../../../foundation/base/config.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { problemOf } from '../../../foundation/base/real-folders.ts';
import { type Check, fail, ok, orOk, some, warn } from '../finding.ts';
import { counted } from '../../../foundation/base/terminal.ts';
import { serveProcess } from '../processes.ts';

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

/** The API's certificate: it exists, belongs to its key, and does not expire soon. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { DAY } from '../../clock.ts';
import { type Check, fail, ok, orOk, warn } from '../finding.ts';

/** Renewals usually happen 30 days before. */
const SOON_DAYS = 21;

export const checkCertificate: Check = ({ tls }, clock) => {
  const { mode, cert, key, selfSigned } = tls;
  if (mode === 'proxy') return [ok('a proxy ends TLS')];
  const missing = [cert, key].find((file) => !existsSync(file));
  if (missing !== undefined) {
    return [
      fail(`${missing} is missing`, selfSigned ? 'start berth: it makes one' : 'see BERTH_TLS_CERT and BERTH_TLS_KEY'),
    ];
  }
  const renew = selfSigned
    ? `remove ${cert} and restart berth: it makes another, which clients have to trust anew`
    : 'renew it, for example with certbot renew';
  const certificate = new X509Certificate(readFileSync(cert));
  const now = clock.now();
  const days = Math.floor((certificate.validToDate.getTime() * 1000 - now) / DAY);
  return orOk(
    [
      !certificate.checkPrivateKey(createPrivateKey(readFileSync(key))) &&
        fail(`${key} is not the key of ${cert}`, 'install a certificate and a key that belong together'),
      (statSync(key).mode & 0o007) !== 0 && fail(`everybody can read ${key}`, `chmod o= ${key}`),
      days < 0 && fail(`${cert} expired ${-days} days ago`, renew),
      days >= 0 && days < SOON_DAYS && warn(`${cert} expires in ${days} days`, renew),
      certificate.validFromDate.getTime() * 1000 > now &&
        fail(`${cert} is not valid yet`, "set the machine's clock: timedatectl set-ntp true"),
    ],
    `${cert} is valid for ${days} more days`,
  );
};

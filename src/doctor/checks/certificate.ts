/** The API's certificate: there, matching its key, and not about to expire. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { type Clock, DAY } from '../../clock.ts';
import type { Config } from '../../config.ts';
import { type Check, fail, type Finding, ok, orOk, warn } from '../finding.ts';

/** Renewals usually happen 30 days before. */
const SOON_DAYS = 21;

export function certificateCheck(config: Config, clock: Clock): Check {
  return {
    name: 'certificate',
    run() {
      const { mode, cert, key, selfSigned } = config.tls;
      if (mode === 'proxy') return [ok('a proxy ends TLS')];
      const renew = selfSigned
        ? `remove ${cert} and restart berth: it makes another, which clients have to trust anew`
        : 'renew it (certbot renew, say)';
      for (const file of [cert, key]) {
        if (!existsSync(file))
          return [
            fail(
              `${file} is missing`,
              selfSigned ? 'start berth: it makes one' : 'see BERTH_TLS_CERT and BERTH_TLS_KEY',
            ),
          ];
      }
      const certificate = new X509Certificate(readFileSync(cert));
      const problems: Finding[] = [];
      if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(key)))) {
        problems.push(fail(`${key} is not the key of ${cert}`, 'put the pair that belongs together in place'));
      }
      if ((statSync(key).mode & 0o007) !== 0) problems.push(fail(`everybody can read ${key}`, `chmod o= ${key}`));
      const now = clock.now();
      const days = Math.floor((certificate.validToDate.getTime() * 1000 - now) / DAY);
      if (days < 0) problems.push(fail(`${cert} expired ${-days} days ago`, renew));
      else if (days < SOON_DAYS) problems.push(warn(`${cert} expires in ${days} days`, renew));
      if (certificate.validFromDate.getTime() * 1000 > now) {
        problems.push(fail(`${cert} is not valid yet`, "set the machine's clock"));
      }
      return orOk(problems, `${cert} is valid for ${days} more days`);
    },
  };
}

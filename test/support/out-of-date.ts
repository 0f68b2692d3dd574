/** What `openssl x509 -req` needs to make a certificate whose time is over. Before 3.4 it took no dates, and since then no negative days. */
import { execFileSync } from 'node:child_process';

export function outOfDate(): string[] {
  const version = execFileSync('openssl', ['version'], { encoding: 'utf8' });
  if (/^OpenSSL 3\.[0-3]\./.test(version)) return ['-days', '-1'];
  return ['-not_before', '20250101000000Z', '-not_after', '20250201000000Z'];
}

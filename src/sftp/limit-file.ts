/**
 * What openssh/admit reads at every login: whether a user gets in, how often at a time, until when, and from where.
 *
 *     suspended                          or:  MAX_CONNECTIONS [EXPIRES_AT|never [networks]]
 *     40a*                                    10.0.0.0/8
 *     620010db8[89ab]*                        2001:db8:8000::/34
 *
 * EXPIRES_AT is in µs since 1970. A shell cannot reckon with addresses of 128 bits, but it matches patterns: each network
 * is one for the address in hexadecimal, after a 4 or a 6. Fields that say nothing are left out, as berth wrote the file
 * before it knew them.
 */
import ipaddr from 'ipaddr.js';
import type { HostedDirectory } from '../directories/host.ts';

type Admission = Pick<HostedDirectory, 'max_connections' | 'suspended' | 'expires_at' | 'allowed_networks'>;

export function limitFile({ max_connections, suspended, expires_at, allowed_networks }: Admission): string {
  if (suspended === 1) return 'suspended\n';
  const networks = JSON.parse(allowed_networks) as string[];
  if (networks.length > 0)
    return [`${max_connections} ${expires_at ?? 'never'} networks`, ...networks.map(patternOf), ''].join('\n');
  return expires_at === null ? `${max_connections}\n` : `${max_connections} ${expires_at}\n`;
}

/** The shell pattern of a CIDR. */
function patternOf(network: string): string {
  const [address, bits] = ipaddr.parseCIDR(network);
  const hex = Buffer.from(address.toByteArray()).toString('hex');
  const start = (address.kind() === 'ipv4' ? '4' : '6') + hex.slice(0, Math.floor(bits / 4));
  if (bits % 4 > 0) {
    const first = Number.parseInt(hex.charAt(Math.floor(bits / 4)), 16);
    const digits = Array.from({ length: 2 ** (4 - (bits % 4)) }, (_, index) => (first + index).toString(16));
    return `${start}[${digits.join('')}]${bits > hex.length * 4 - 4 ? '' : '*'}`;
  }
  return bits === hex.length * 4 ? start : `${start}*`;
}

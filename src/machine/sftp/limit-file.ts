/**
 * Writes the file that openssh/admit reads at every login: whether a user may log in, with how many connections at a
 * time, until when, and from which networks.
 *
 *     suspended                          or:  MAX_CONNECTIONS [EXPIRES_AT|never [networks]]
 *     10.*.*                                  10.0.0.0/8
 *     192.168.[4567].*                        192.168.4.0/22
 *     2001:db8:[89ab][0-9a-f][0-9a-f][0-9a-f]:*    2001:db8:8000::/34
 *
 * EXPIRES_AT is in µs since 1970. A network is written as shell patterns that match the text of its addresses, so that a
 * login needs no arithmetic: IPv4 as usual, IPv6 as eight groups without leading zeros. Fields without a limit are left
 * out, so the file is then the same as that of older versions.
 */
import ipaddr from 'ipaddr.js';
import type { HostedDirectory } from '../../rules/directories/host.ts';

type Admission = Pick<HostedDirectory, 'max_connections' | 'suspended' | 'expires_at' | 'allowed_networks'>;

export function limitFile({ max_connections, suspended, expires_at, allowed_networks }: Admission): string {
  if (suspended === 1) return 'suspended\n';
  const networks = JSON.parse(allowed_networks) as string[];
  if (networks.length > 0)
    return [`${max_connections} ${expires_at ?? 'never'} networks`, ...networks.flatMap(patternsOf), ''].join('\n');
  return expires_at === null ? `${max_connections}\n` : `${max_connections} ${expires_at}\n`;
}

/** The shell patterns of a CIDR. */
function patternsOf(network: string): string[] {
  const [address, bits] = ipaddr.parseCIDR(network);
  const [parts, size, base, separator] =
    address instanceof ipaddr.IPv4 ? [address.octets, 8, 10, '.'] : [address.parts, 16, 16, ':'];
  const at = Math.floor(bits / size);
  const before = parts.slice(0, at).map((part) => part.toString(base));
  const part = parts[at];
  if (part === undefined) return [before.join(separator)];
  const count = 2 ** (size - (bits % size));
  const choices = count === 2 ** size ? ['*'] : numerals(part, part + count - 1, base);
  const after = at + 1 < parts.length ? ['*'] : [];
  return choices.map((choice) => [...before, choice, ...after].join(separator));
}

/** Shell patterns of all numbers from `first` to `last`, without leading zeros. */
function numerals(first: number, last: number, base: number): string[] {
  const patterns: string[] = [];
  for (let digits = 1, low = 0; low <= last; digits += 1) {
    const next = base ** digits;
    if (next > first) patterns.push(...ofLength(digits, Math.max(first, low), Math.min(last, next - 1), base));
    low = next;
  }
  return patterns;
}

/** Like `numerals`, for numbers of a fixed count of digits, leading zeros included. */
function ofLength(digits: number, first: number, last: number, base: number): string[] {
  if (digits === 0) return [''];
  const unit = base ** (digits - 1);
  const patterns: string[] = [];
  let whole = '';
  for (let digit = Math.floor(first / unit); digit * unit <= last; digit += 1) {
    const low = Math.max(first - digit * unit, 0);
    const high = Math.min(last - digit * unit, unit - 1);
    if (low === 0 && high === unit - 1) whole += digit.toString(base);
    else patterns.push(...ofLength(digits - 1, low, high, base).map((rest) => digit.toString(base) + rest));
  }
  const any = base === 16 ? '[0-9a-f]' : '[0-9]';
  if (whole !== '') patterns.push((whole.length === 1 ? whole : `[${whole}]`) + any.repeat(digits - 1));
  return patterns;
}

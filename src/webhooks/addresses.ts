/**
 * Which addresses a webhook may go to (docs/design.md, 9): public unicast ones, and what the operator opens.
 * IPv6 is judged the other way round: only 2000::/3 has ever been given out as global unicast (IANA, "IPv6 Global
 * Unicast Address Assignments"), so all else is refused, and within it what is special or carries IPv4 inside.
 */
import { BlockList, isIP } from 'node:net';
import { errorMessage, OperatorError } from '../errors.ts';

/** IANA, "IPv4 Special-Purpose Address Registry", with multicast and the reserved rest. */
const BLOCKED_V4: readonly [string, number][] = [
  ['0.0.0.0', 8], // this network, unspecified
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // carrier-grade NAT
  ['127.0.0.0', 8], // loopback
  ['169.254.0.0', 16], // link-local, cloud metadata
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments
  ['192.0.2.0', 24], // documentation
  ['192.31.196.0', 24], // AS112
  ['192.52.193.0', 24], // AMT
  ['192.88.99.0', 24], // 6to4 relays
  ['192.168.0.0', 16], // private
  ['192.175.48.0', 24], // AS112
  ['198.18.0.0', 15], // benchmarking
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
];

/**
 * Outside 2000::/3 lie loopback, unspecified, v4-mapped, v4-compatible, NAT64 (both prefixes), discard-only,
 * unique local, link-local, site-local and multicast.
 */
const GLOBAL_V6 = ['2000::', 3] as const;
/** IANA, "IPv6 Special-Purpose Address Registry". */
const BLOCKED_V6: readonly [string, number][] = [
  ['2001::', 23], // protocol assignments: Teredo, benchmarking, ORCHID, …
  ['2001:db8::', 32], // documentation
  ['2002::', 16], // 6to4
  ['2620:4f:8000::', 48], // AS112
  ['3ffe::', 16], // the former 6bone
  ['3fff::', 20], // documentation
];

/**
 * Tells whether an address (text of an IP, without brackets) may be connected to.
 * @param allow CIDRs that are let through although they would be refused.
 * @throws {OperatorError} when one of them is none.
 */
export function addressRule(allow: readonly string[]): (address: string) => boolean {
  const opened = new BlockList();
  for (const cidr of allow) addCidr(opened, cidr);
  const blocked = new BlockList();
  for (const [network, prefix] of BLOCKED_V4) blocked.addSubnet(network, prefix, 'ipv4');
  for (const [network, prefix] of BLOCKED_V6) blocked.addSubnet(network, prefix, 'ipv6');
  const global = new BlockList();
  global.addSubnet(...GLOBAL_V6, 'ipv6');

  return (address) => {
    // A zone (`fe80::1%eth0`) names an interface of this machine: never a receiver's address.
    const family = address.includes('%') ? 0 : isIP(address);
    if (family === 4) return opened.check(address, 'ipv4') || !blocked.check(address, 'ipv4');
    if (family !== 6) return false;
    if (opened.check(address, 'ipv6')) return true;
    return global.check(address, 'ipv6') && !blocked.check(address, 'ipv6');
  };
}

function addCidr(list: BlockList, cidr: string): void {
  const [network = '', prefix = ''] = cidr.split('/');
  try {
    // Without a prefix it must not count as /0, which would open everything.
    list.addSubnet(network, prefix === '' ? Number.NaN : Number(prefix), isIP(network) === 6 ? 'ipv6' : 'ipv4');
  } catch (error) {
    throw new OperatorError(`BERTH_WEBHOOK_ALLOW: ${cidr} is not a network such as 10.0.0.0/8`, {
      cause: errorMessage(error),
    });
  }
}

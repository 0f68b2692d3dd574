/** The networks from which a directory's user may log in: CIDRs of IPv4 and IPv6, each in one spelling. */
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The network as it is stored, or why it is none. An address alone is a network of one. `::ffff:a.b.c.d` is the IPv4 address
 * in it, wherever it stands: that is what sshd takes a client for that comes by such an address.
 */
export function networkOf(text: string): { readonly network: string } | { readonly problem: string } {
  const [, address = '', length] = /^([0-9A-Fa-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  if (!isIPv4(address) && !isIPv6(address)) return { problem: 'is invalid' };
  const given = ipaddr.parse(address);
  const most = given.toByteArray().length * 8;
  const bits = length === undefined ? most : Number(length);
  if (bits > most) return { problem: 'is invalid' };
  const [base, left] = unmapped(given, bits);
  const network = networkAddress(base, left);
  if (network !== base.toString()) return { problem: `has host bits set: its network is ${network}/${left}` };
  return { network: `${network}/${left}` };
}

/** An IPv6 network that is wider than all mapped addresses stays what it is. */
function unmapped(address: ipaddr.IPv4 | ipaddr.IPv6, bits: number): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96
    ? [address.toIPv4Address(), bits - 96]
    : [address, bits];
}

function networkAddress(address: ipaddr.IPv4 | ipaddr.IPv6, bits: number): string {
  const cidr = `${address.toString()}/${bits}`;
  return (
    address instanceof ipaddr.IPv4 ? ipaddr.IPv4.networkAddressFromCIDR(cidr) : ipaddr.IPv6.networkAddressFromCIDR(cidr)
  ).toString();
}

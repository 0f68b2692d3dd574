/** The networks from which a directory's user may log in: IPv4 and IPv6 CIDRs, each in one spelling. */
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { FieldProblem } from '../../foundation/base/problems.ts';

/**
 * The network as it is stored, or why the text is not a network. A single address is a network of one. An IPv4-mapped address
 * (`::ffff:a.b.c.d`) counts as its IPv4 address, since sshd reports clients with such an address by their IPv4 address.
 */
export function networkOf(text: string): { readonly network: string } | { readonly problem: FieldProblem } {
  const [, address = '', length] = /^([0-9A-Fa-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  if (!isIPv4(address) && !isIPv6(address)) return { problem: ['not_a_network', quotable(text)] };
  const given = ipaddr.parse(address);
  const most = given.toByteArray().length * 8;
  const bits = length === undefined ? most : Number(length);
  if (bits > most) return { problem: ['not_a_network', quotable(text)] };
  const range = unmapped({ address: given, bits });
  const network = `${networkAddress(range)}/${range.bits}`;
  if (network !== cidrOf(range)) return { problem: ['host_bits', quotable(text), network] };
  return { network };
}

/** The text, if a message may repeat it. */
function quotable(text: string): string {
  if (text.trim() === '') return 'an empty text';
  return text.length > 50 ? 'a network' : text.toWellFormed();
}

interface Range {
  readonly address: ipaddr.IPv4 | ipaddr.IPv6;
  readonly bits: number;
}

function cidrOf({ address, bits }: Range): string {
  return `${address.toString()}/${bits}`;
}

/** An IPv6 network that is wider than the range of mapped addresses stays as it is. */
function unmapped({ address, bits }: Range): Range {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96
    ? { address: address.toIPv4Address(), bits: bits - 96 }
    : { address, bits };
}

function networkAddress({ address, bits }: Range): string {
  const cidr = cidrOf({ address, bits });
  return (
    address instanceof ipaddr.IPv4 ? ipaddr.IPv4.networkAddressFromCIDR(cidr) : ipaddr.IPv6.networkAddressFromCIDR(cidr)
  ).toString();
}

/** Whether an address is in one of the networks; always when there are none. */
export function isWithin(networks: readonly string[], address: string): boolean {
  if (networks.length === 0) return true;
  if (!ipaddr.isValid(address)) return false;
  const allowed = networks.map((network) => ipaddr.parseCIDR(network));
  return ipaddr.subnetMatch(ipaddr.process(address), { allowed }, 'other') === 'allowed';
}

/**
 * Whose connection a request came over, for limits that are kept by address. `X-Forwarded-For` counts only as far as
 * proxies that the operator trusts have written it: anybody can send one.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';

/** The client's address as text of an IP; empty when the connection is gone. */
export type ClientAddress = (incoming: IncomingMessage) => string;

/** @param trusted CIDRs of the proxies, checked by `config.ts`. */
export function clientAddress(trusted: readonly string[]): ClientAddress {
  const isProxy = addressesIn(trusted);
  // From the connection on, up to the first address that is no proxy's: the client, unless the proxy knew no address.
  return (incoming) =>
    proxyAddr
      .all(incoming, isProxy)
      .map(plain)
      .findLast((address) => isIP(address) !== 0) ?? '';
}

/** Whether a request came straight from one of those proxies. */
export function fromProxy(trusted: readonly string[]): (incoming: IncomingMessage) => boolean {
  const isProxy = addressesIn(trusted);
  return ({ socket }) => isProxy(socket.remoteAddress);
}

function addressesIn(cidrs: readonly string[]): (address: string | undefined) => boolean {
  // Not proxy-addr's own: it knows no /0.
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = '', prefix] = cidr.split('/');
    list.addSubnet(network, Number(prefix), family(network));
  }
  return (text) => {
    const address = plain(text);
    return isIP(address) !== 0 && list.check(address, family(address));
  };
}

/**
 * What one client can easily have of the address space: an IPv4 address, or the first 64 bits of an IPv6 one, since
 * every network gives out at least that much (RFC 6177).
 */
export function clientNetwork(address: string): string {
  if (isIP(address) !== 6) return address;
  const groups = ipaddr.IPv6.parse(address).parts.slice(0, 4);
  return `${groups.map((group) => group.toString(16)).join(':')}::/64`;
}

/** Without the port, the brackets and the zone that proxies and sockets may add; IPv4 in IPv6 becomes IPv4. */
function plain(given = ''): string {
  const text = given.trim();
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return bare.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '');
}

function family(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

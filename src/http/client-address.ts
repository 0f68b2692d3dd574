/**
 * Whose connection a request came over, for limits that are kept by address. `X-Forwarded-For` counts only as far as
 * proxies that the operator trusts have written it: anybody can send one.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/** The client's address as text of an IP; empty when the connection is gone. */
export type ClientAddress = (incoming: IncomingMessage) => string;

/** @param trusted CIDRs of the proxies, checked by `config.ts`. */
export function clientAddress(trusted: readonly string[]): ClientAddress {
  const isProxy = addressesOf(trusted);

  return ({ socket, headers }) => {
    let client = plain(socket.remoteAddress ?? '');
    if (trusted.length === 0 || client === '' || !isProxy(client)) return client;
    // Each proxy appends whom it heard it from, so from the right on every entry is as good as the one before it.
    const hops = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',').toReversed();
    for (const hop of hops) {
      const address = plain(hop.trim());
      if (isIP(address) === 0) return client;
      client = address;
      if (!isProxy(client)) return client;
    }
    return client;
  };
}

/** Whether a request came straight from one of those proxies. */
export function fromProxy(trusted: readonly string[]): (incoming: IncomingMessage) => boolean {
  const isProxy = addressesOf(trusted);
  return ({ socket }) => trusted.length > 0 && isProxy(plain(socket.remoteAddress ?? ''));
}

function addressesOf(cidrs: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = '', prefix = ''] = cidr.split('/');
    list.addSubnet(network, Number(prefix), family(network));
  }
  return (address) => isIP(address) !== 0 && list.check(address, family(address));
}

/**
 * What one client can easily have of the address space: an IPv4 address, or the first 64 bits of an IPv6 one, since
 * every network gives out at least that much (RFC 6177).
 */
export function clientNetwork(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = address.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  // A dotted end takes the room of two groups; there is none within the first 64 bits.
  const length = before.length + after.length + (address.includes('.') ? 1 : 0);
  const groups = tail === undefined ? before : [...before, ...Array<string>(8 - length).fill('0'), ...after];
  const prefix = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${prefix.join(':')}::/64`;
}

/** Without the port, the brackets and the zone that proxies and sockets may add; IPv4 in IPv6 becomes IPv4. */
function plain(text: string): string {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return bare.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '');
}

function family(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

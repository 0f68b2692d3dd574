/**
 * The client behind a connection, for limits that are kept by address. `X-Forwarded-For` counts only as far as proxies
 * that the operator trusts have written it: anybody can send one.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import proxyAddr from 'proxy-addr';

/** The client's IP address as text; empty when the connection is gone. */
export type ClientAddress = (incoming: IncomingMessage) => string;

/** @param trusted CIDRs of the proxies, checked by `config.ts`. */
export function clientAddress(trusted: readonly string[]): ClientAddress {
  const isProxy = within(trusted);
  // From the connection on, up to the first address that is no proxy's: the client, unless the proxy knew no address.
  return (incoming) =>
    proxyAddr
      .all(incoming, isProxy)
      .flatMap((text) => parse(text)?.toString() ?? [])
      .at(-1) ?? '';
}

/** Whether a request came straight from one of those proxies. */
export function fromProxy(trusted: readonly string[]): (incoming: IncomingMessage) => boolean {
  const isProxy = proxyAddress(trusted);
  return ({ socket }) => isProxy(socket.remoteAddress);
}

/** Whether an address is that of one of those proxies. */
export function proxyAddress(trusted: readonly string[]): (address: string | undefined) => boolean {
  return within(trusted);
}

export function isLoopback(address: string | undefined): boolean {
  return parse(address)?.range() === 'loopback';
}

/**
 * The part of the address space that one client can easily have: an IPv4 address, or the first 64 bits of an IPv6 one,
 * since every network gives out at least that much (RFC 6177).
 */
export function clientNetwork(address: string): string {
  const parsed = parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return address;
  const groups = parsed.parts.slice(0, 4).map((group) => group.toString(16));
  return `${groups.join(':')}::/64`;
}

/** The larger part that some clients have all of: the first 48 bits of an IPv6 address, an IPv4 address. */
export function clientSite(address: string): string {
  const parsed = parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return address;
  const groups = parsed.parts.slice(0, 3).map((group) => group.toString(16));
  return `${groups.join(':')}::/48`;
}

/** Not proxy-addr's own test, which knows no /0. */
function within(cidrs: readonly string[]): (address: string | undefined) => boolean {
  const trusted = cidrs.map((cidr) => ipaddr.parseCIDR(cidr));
  return (text) => {
    const address = parse(text);
    return address !== undefined && ipaddr.subnetMatch(address, { trusted }, 'other') === 'trusted';
  };
}

/** An address with the brackets or the port that a proxy may have added. IPv4 mapped into IPv6 becomes IPv4. */
function parse(given = ''): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const text = given.trim();
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  // ipaddr.js alone would take "1" and "0x7f.1" for addresses too.
  return isIP(bare) === 0 ? undefined : ipaddr.process(bare);
}

/**
 * Finds the client behind a connection, for limits by address. `X-Forwarded-For` counts only as far as trusted proxies have
 * written it, since anybody can send the header.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The client's IP address as text; empty when the connection is gone. */
export type ClientAddress = (incoming: IncomingMessage) => string;

/** @param trusted CIDRs of the proxies, checked by `config.ts`. */
export function clientAddress(trusted: readonly string[]): ClientAddress {
  const isProxy = within(trusted);
  return (incoming) => {
    const { path, proxies } = pathOf(incoming, isProxy);
    // If a proxy wrote no address, the client is the last one before that.
    const trustworthy = path.slice(0, proxies + 1);
    return trustworthy.flatMap((text) => parse(text)?.toString() ?? []).at(-1) ?? '';
  };
}

type IsProxy = (address: string | undefined) => boolean;

/**
 * Whether the client used TLS, by `X-Forwarded-Proto`. Some proxies append to the header, others replace it, so the value is the
 * one that the trusted proxy nearest to the client has written.
 */
export function clientUsedTls(incoming: IncomingMessage, isProxy: IsProxy): boolean {
  const values = String(incoming.headers['x-forwarded-proto'] ?? '').split(',');
  const { proxies } = pathOf(incoming, isProxy);
  return values[Math.max(0, values.length - proxies)]?.trim().toLowerCase() === 'https';
}

/** The addresses from here to the client and beyond, and how many of the first ones belong to trusted proxies. */
function pathOf({ headers, socket }: IncomingMessage, isProxy: IsProxy) {
  const written = String(headers['x-forwarded-for'] ?? '').split(',');
  // Each proxy appends the address that it sees.
  const path = [socket.remoteAddress, ...written.toReversed().filter((text) => text.trim() !== '')];
  const end = path.findIndex((address) => !isProxy(address));
  return { path, proxies: end === -1 ? path.length : end };
}

/** Whether a request came directly from one of those proxies. */
export function fromProxy(trusted: readonly string[]): (incoming: IncomingMessage) => boolean {
  const isProxy = proxyAddress(trusted);
  return ({ socket }) => isProxy(socket.remoteAddress);
}

/** Whether an address belongs to one of those proxies. */
export function proxyAddress(trusted: readonly string[]): (address: string | undefined) => boolean {
  return within(trusted);
}

export function isLoopback(address: string | undefined): boolean {
  return parse(address)?.range() === 'loopback';
}

/**
 * The part of the address space that one client can easily own: an IPv4 address, or the first 64 bits of an IPv6 address,
 * since every network assigns at least that much (RFC 6177).
 */
export function clientNetwork(address: string): string {
  const parsed = parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed?.toString() ?? address;
  const groups = parsed.parts.slice(0, 4).map((group) => group.toString(16));
  return `${groups.join(':')}::/64`;
}

/** The larger part that some clients own: an IPv4 address, or the first 48 bits of an IPv6 address. */
export function clientSite(address: string): string {
  const parsed = parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed?.toString() ?? address;
  const groups = parsed.parts.slice(0, 3).map((group) => group.toString(16));
  return `${groups.join(':')}::/48`;
}

function within(cidrs: readonly string[]): (address: string | undefined) => boolean {
  const trusted = cidrs.map((cidr) => ipaddr.parseCIDR(cidr));
  return (text) => {
    const address = parse(text);
    return address !== undefined && ipaddr.subnetMatch(address, { trusted }, 'other') === 'trusted';
  };
}

/** Parses an address, which may have brackets or a port from a proxy. IPv4 mapped into IPv6 becomes IPv4. */
function parse(given = ''): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const text = given.trim();
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  // ipaddr.js alone would take "1" and "0x7f.1" for addresses too.
  return isIP(bare) === 0 ? undefined : ipaddr.process(bare);
}

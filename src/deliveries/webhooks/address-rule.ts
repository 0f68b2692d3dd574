/**
 * Decides which addresses a webhook may go to (docs/design.md, 9): public unicast addresses, and networks that the
 * operator allows.
 */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import { OperatorError } from '../../foundation/base/errors.ts';

type Address = ReturnType<typeof ipaddr.parse>;
type Network = ReturnType<typeof ipaddr.parseCIDR>;

/** All of IPv6 that has ever been given out as unicast (IANA, "IPv6 Global Unicast Address Assignments"). */
const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3');
/** The former 6bone: given back, and not among the special ranges of IANA. */
const FORMER_V6 = ipaddr.parseCIDR('3ffe::/16');

/**
 * Returns a check whether webhooks may go to an address (the text of an IP, without brackets).
 * @param allow CIDRs that are allowed in addition to public addresses.
 * @throws {OperatorError} when one of the CIDRs is invalid.
 */
export function addressRule(allow: readonly string[]): (address: string) => boolean {
  const isOpened = openedRule(allow);
  return (text) => {
    // A zone (`fe80::1%eth0`) names an interface of this machine: never a receiver's address.
    if (isIP(text) === 0 || text.includes('%')) return false;
    return isOpened(text) || isPublic(ipaddr.parse(text));
  };
}

/** How long this machine's own addresses are cached, in ms. */
const KNOWN_MS = 1000;

/**
 * Returns a check whether a connection may be opened to an address. Beyond `addressRule`, it refuses the addresses of
 * this machine's own interfaces, unless `allow` has them: connections to these go over loopback, past the firewall.
 * @throws {OperatorError} as `addressRule` does.
 */
export function connectRule(allow: readonly string[]): (address: string) => boolean {
  const mayReach = addressRule(allow);
  const isOpened = openedRule(allow);
  let own = new Set<string>();
  let until = 0;
  return (text) => {
    if (!mayReach(text) || isOpened(text)) return mayReach(text);
    const now = performance.now();
    if (now >= until) {
      own = ownAddresses();
      until = now + KNOWN_MS;
    }
    return !own.has(ipaddr.parse(text).toNormalizedString());
  };
}

function ownAddresses(): Set<string> {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return new Set(all.map(({ address }) => ipaddr.parse(address.replace(/%.*/, '')).toNormalizedString()));
}

function openedRule(allow: readonly string[]): (address: string) => boolean {
  const opened = allow.map(network);
  return (text) => {
    const address = ipaddr.parse(text);
    return opened.some((cidr) => isWithin(address, cidr));
  };
}

/** Special ranges (private, loopback, documentation, IPv4 inside IPv6, …) have names other than `unicast`. */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv4' || (isWithin(address, GLOBAL_V6) && !isWithin(address, FORMER_V6));
}

function isWithin(address: Address, cidr: Network): boolean {
  return address.kind() === cidr[0].kind() && address.match(cidr);
}

function network(cidr: string): Network {
  // The library also accepts short forms: `1.2.3/8` would be 1.2.0.3/8.
  const [address = ''] = cidr.split('/');
  if (isIP(address) === 0 || !ipaddr.isValidCIDR(cidr)) {
    throw new OperatorError(`BERTH_WEBHOOK_ALLOW: ${cidr} is not a network such as 10.0.0.0/8`);
  }
  return ipaddr.parseCIDR(cidr);
}

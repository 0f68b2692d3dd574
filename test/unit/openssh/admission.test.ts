/** The networks of openssh/admit, run by dash, against ipaddr.js; and what a limit file says. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { networkOf } from '../../../src/rules/directories/networks.ts';
import { limitFile } from '../../../src/machine/sftp/credentials.ts';
import { scratch } from '../../support/scratch.ts';

import assert from 'node:assert/strict';
import { fc } from '../../support/fast-check.ts';
import ipaddr from 'ipaddr.js';

const ADMIT = readFileSync(fileURLToPath(new URL('../../../openssh/admit', import.meta.url)), 'utf8');
/** What compares an address with the networks; it may start no program. */
const FUNCTIONS = ADMIT.slice(ADMIT.indexOf('from_allowed() {'), ADMIT.indexOf('# refuse REASON'));

interface Case {
  readonly networks: readonly string[];
  readonly address: string;
}

/** Whether the hook lets each of them in. */
function admits(cases: readonly Case[]): boolean[] {
  using place = scratch();
  mkdirSync(join(place.dir, 'limits'));
  const lines = cases.map(({ networks, address }, index) => {
    const allowed_networks = JSON.stringify(networks);
    const text = limitFile({ max_connections: 10, suspended: 0, expires_at: null, allowed_networks });
    writeFileSync(join(place.dir, 'limits', String(index)), text);
    return address;
  });
  const loop = `index=0
while IFS= read -r PAM_RHOST; do
  limit_file=${place.dir}/limits/$index
  if from_allowed; then echo yes; else echo no; fi
  index=$((index + 1))
done`;
  const { stdout, stderr } = spawnSync('/bin/dash', ['-c', `LC_ALL=C PATH=/nonexistent\n${FUNCTIONS}\n${loop}`], {
    input: lines.map((line) => `${line}\n`).join(''),
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((word) => word === 'yes');
}

const storedNetwork = (text: string): string => {
  const result = networkOf(text);
  if ('problem' in result) throw new Error(result.problem.join(' '));
  return result.network;
};

/** Bytes that are often alike, so that addresses fall just inside and just outside of networks. */
const byte = fc.oneof(fc.constantFrom(0, 1, 10, 127, 128, 192, 255), fc.integer({ min: 0, max: 255 }));
const bytes = (length: number) => fc.array(byte, { minLength: length, maxLength: length });
const mapped = bytes(4).map((last) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...last]);
const anyAddress = fc.oneof(
  bytes(4),
  bytes(16),
  mapped,
  bytes(2).map((last) => [...Array<number>(14).fill(0), ...last]),
);

/** The network of that many bits around an address, as a caller would write it. */
function networkAround(address: readonly number[], share: number): string {
  const bits = Math.round(share * address.length * 8);
  const base = address.map((value, at) => value & (0xff00 >> Math.min(8, Math.max(0, bits - at * 8))) & 0xff);
  return `${ipaddr.fromByteArray(base).toString()}/${bits}`;
}

/** How inet_ntop(3) may write an address, or getnameinfo(3) with its interface. */
function spellings(address: readonly number[]): string[] {
  const parsed = ipaddr.fromByteArray([...address]);
  if (parsed instanceof ipaddr.IPv4) return [parsed.toString(), `::ffff:${parsed.toString()}`];
  if (parsed.isIPv4MappedAddress()) return [`::ffff:${address.slice(12).join('.')}`];
  return [parsed.toString(), parsed.toNormalizedString(), `${parsed.toString()}%eth0`];
}

/** ipaddr.js on whether an address is in a network: an IPv4 address, mapped or not, is in networks of IPv4 only. */
function contains(network: string, address: readonly number[]): boolean {
  const one = ipaddr.fromByteArray([...address]);
  const plain = one instanceof ipaddr.IPv6 && one.isIPv4MappedAddress() ? one.toIPv4Address() : one;
  const [base, bits] = ipaddr.parseCIDR(network);
  return plain.kind() === base.kind() && plain.match(base, bits);
}

const flipped = (address: readonly number[], bit: number): number[] =>
  address.map((value, at) => (at === bit >> 3 ? value ^ (0x80 >> (bit & 7)) : value));

test('dash lets in exactly the addresses that ipaddr.js finds in the networks, however they are written', () => {
  const one = fc
    .record({
      around: fc.array(fc.tuple(anyAddress, fc.double({ min: 0, max: 1, noNaN: true })), {
        minLength: 1,
        maxLength: 6,
      }),
      other: anyAddress,
      bit: fc.nat(127),
      pick: fc.nat(11),
    })
    .map(({ around, other, bit, pick }) => {
      const near = around[pick % around.length]?.[0] ?? other;
      const address = pick < 3 ? other : pick < 7 ? near : flipped(near, bit % (near.length * 8));
      return { networks: around.map(([base, share]) => storedNetwork(networkAround(base, share))), address, pick };
    });
  fc.assert(
    fc.property(fc.array(one, { minLength: 100, maxLength: 100 }), (cases) => {
      const asked = cases.map(({ networks, address, pick }) => {
        const ways = spellings(address);
        return { networks, address: ways[pick % ways.length] ?? '' };
      });
      const expected = cases.map(({ networks, address }) => networks.some((each) => contains(each, address)));
      assert.deepEqual(admits(asked), expected, JSON.stringify(asked));
    }),
    { numRuns: 30 },
  );
});

test('each prefix length: the first and the last address are in, their neighbours are not', () => {
  const add = (address: readonly number[], difference: bigint): number[] | undefined => {
    const size = BigInt(address.length * 8);
    const value = BigInt(`0x${Buffer.from(address).toString('hex')}`) + difference;
    if (value < 0n || value >= 1n << size) return undefined;
    return [...Buffer.from(value.toString(16).padStart(address.length * 2, '0'), 'hex')];
  };
  const cases: (Case & { readonly isIn: boolean })[] = [];
  for (const base of [
    [203, 0, 113, 77],
    [0x20, 0x01, 0x0d, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x9c],
  ]) {
    for (let bits = 0; bits <= base.length * 8; bits += 1) {
      const network = networkAround(base, bits / (base.length * 8));
      const first = ipaddr.parseCIDR(network)[0].toByteArray();
      const last = add(first, (1n << BigInt(base.length * 8 - bits)) - 1n);
      const put = (address: number[] | undefined, isIn: boolean): void => {
        if (address) cases.push({ networks: [network], address: ipaddr.fromByteArray(address).toString(), isIn });
      };
      put(first, true);
      put(last, true);
      put(add(first, -1n), false);
      put(last && add(last, 1n), false);
    }
  }
  assert.ok(cases.length > 600);
  assert.deepEqual(
    admits(cases),
    cases.map(({ isIn }) => isIn),
  );
});

test('a text that is not an address is admitted nowhere, not even from all networks', () => {
  const networks = ['0.0.0.0/0', '::/0'];
  for (const address of ['UNKNOWN', '', '*', 'host.example.com', '1.2.3.4 ', '$(id)', "4'", '2001:DB8::1'])
    assert.deepEqual([address, ...admits([{ networks, address }])], [address, false]);
  const both = ['203.0.113.7', '2001:db8::7', '::ffff:203.0.113.7', 'fe80::7%eth0', '::', '::1'];
  assert.deepEqual(
    admits(both.map((address) => ({ networks, address }))),
    both.map(() => true),
  );
});

test('a limit file of an older berth is what an unrestricted directory has', () => {
  const open = { max_connections: 10, suspended: 0, expires_at: null, allowed_networks: '[]' } as const;
  assert.equal(limitFile(open), '10\n');
  assert.equal(limitFile({ ...open, expires_at: 1_800_000_000_000_000 }), '10 1800000000000000\n');
  assert.equal(limitFile({ ...open, suspended: 1, expires_at: 1 }), 'suspended\n');
  assert.equal(
    limitFile({ ...open, allowed_networks: '["10.0.0.0/8","192.168.4.0/22","2001:db8:8000::/34","203.0.113.7/32"]' }),
    '10 never networks\n10.*.*\n192.168.[4567].*\n2001:db8:[89ab][0-9a-f][0-9a-f][0-9a-f]:*\n203.0.113.7\n',
  );
});

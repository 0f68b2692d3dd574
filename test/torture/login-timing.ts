/**
 * `npm run torture -- login-timing [--names 8] [--rounds 40] [--passwords 16]`: whether the time of a refusal tells a known
 * username from an unknown one, on berth's sshd and, interleaved, on a stock one of the same machine with local users.
 *
 * sshd stretches a refusal to a time of 5 to 9 ms that it makes up for the username, or to twice, four times, … of that when it
 * took longer (ensure_minimum_time_since in auth2.c; from some version on not that of the first request, `none`). Names differ by that
 * alone, so each is compared with itself: it exists in every other round. The figures, means of all names: the chance that a refusal
 * takes longer while the name is known (0.5 tells nothing, 0 or 1 tells all), and how often it was stretched twice as long.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import ssh2 from 'ssh2';
import { removeCredentials } from '../../src/machine/sftp/credentials.ts';
import { percentile } from '../support/percentile.ts';
import { scratch } from '../support/scratch.ts';
import { directory, hostOf, keyPair } from '../support/sftp-user.ts';
import { startSshd } from '../support/sshd.ts';
import { startStockSshd } from './stock-sshd.ts';

const { values } = parseArgs({
  options: {
    names: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '40' },
    passwords: { type: 'string', default: '16' },
  },
});
/** How much likelier than with stock sshd a known name may be recognized, beyond how often noise "recognizes" names that never exist. */
const SLACK = 0.1;

type Request = 'none' | 'publickey' | 'password';

using place = scratch();
await using sshd = await startSshd(place);
await using host = hostOf(sshd.paths);
const { publicKey } = keyPair(place.dir);
const { privateKey } = keyPair(place.dir, 'other');
const of = <T>(make: () => T): T[] => Array.from({ length: Number(values.names) }, make);
const withPassword = of(() => directory());
const keyOnly = of(() => directory({ auth_mode: 'public_key', public_key: publicKey }));
const local = of(() => `local${randomUUID().slice(0, 8)}`);
await using stock = await startStockSshd(place.dir, sshd.paths.hostKeys, local);

interface Kind {
  readonly kind: string;
  readonly port: number;
  readonly names: readonly string[];
}
const nameOf = ({ sftp_username }: { sftp_username: string }): string => sftp_username;
const STOCK = 'stock, local user';
const CONTROL = 'berth, never known';
const kinds: readonly Kind[] = [
  { kind: 'berth, password', port: sshd.port, names: withPassword.map(nameOf) },
  { kind: 'berth, key only', port: sshd.port, names: keyOnly.map(nameOf) },
  { kind: CONTROL, port: sshd.port, names: of(() => `u${randomUUID().slice(0, 6)}`) },
  { kind: STOCK, port: stock.port, names: local },
];

/** Half the names of each kind exist, the others in the next round. */
const isKnownIn = (round: number, index: number): boolean => (round + index) % 2 === 0;

async function setKnown(round: number): Promise<void> {
  stock.setKnown(local.filter((_, index) => isKnownIn(round, index)));
  for (const rows of [withPassword, keyOnly])
    for (const [index, row] of rows.entries())
      await (isKnownIn(round, index) ? host.apply(row) : removeCredentials(sshd.paths, nameOf(row)));
}

let connections = 0;

/** Milliseconds from each of the requests to its refusal, in one connection. */
function attempt(port: number, username: string, requests: readonly Request[]): Promise<number[]> {
  const client = new ssh2.Client();
  const taken: number[] = [];
  let sent: number | undefined;
  connections += 1;
  const { promise, resolve, reject } = Promise.withResolvers<number[]>();
  const next = (): unknown => {
    const now = performance.now();
    if (sent !== undefined) taken.push(now - sent);
    sent = now;
    const type = requests[taken.length];
    if (type === 'publickey') return { type, username, key: privateKey };
    if (type === 'password') return { type, username, password: 'wrong-wrong-wrong-wrong-wrong-wro' };
    return type === 'none' ? { type, username } : false;
  };
  client.on('connect', () => client.setNoDelay(true)); // or the answer waits for an acknowledgement, 40 ms
  client.on('error', (error) => (taken.length === requests.length ? resolve(taken) : reject(error)));
  client.on('close', () => reject(new Error('hung up')));
  client.connect({
    host: '127.0.0.1',
    port,
    // No address fails often enough to be shut out (PerSourcePenalties).
    localAddress: `127.1.${(connections >> 7) % 250}.${1 + (connections % 128)}`,
    username,
    readyTimeout: 60_000,
    authHandler: (_methods, _partial, use) => use(next() as never),
  });
  return promise.finally(() => client.destroy());
}

type Samples = Record<'known' | 'unknown', number[]>;
/** By kind and request, then by name. */
const samples = new Map<string, Map<string, Samples>>();

function note(key: string, name: string, isKnown: boolean, times: readonly number[]): void {
  const ofKey = samples.get(key) ?? new Map<string, Samples>();
  samples.set(key, ofKey);
  const ofName = ofKey.get(name) ?? { known: [], unknown: [] };
  ofKey.set(name, ofName);
  ofName[isKnown ? 'known' : 'unknown'].push(...times);
}

const all = kinds.flatMap(({ kind, port, names }) => names.map((name, index) => ({ kind, port, name, index })));
for (let round = 0; round < Number(values.rounds); round++) {
  await setKnown(round);
  // One connection at a time, in a new order each round.
  for (const { kind, port, name, index } of all.toSorted(() => Math.random() - 0.5)) {
    const isKnown = isKnownIn(round, index);
    const [none = 0, key = 0] = await attempt(port, name, ['none', 'publickey']);
    note(`none|${kind}`, name, isKnown, [none]);
    note(`publickey|${kind}`, name, isKnown, [key]);
  }
}
// PAM lets each wrong password wait for about two seconds, so these run side by side.
for (let round = 0; round < Number(values.passwords); round++) {
  await setKnown(round);
  await Promise.all(
    all.map(async ({ kind, port, name, index }) => {
      const [, ...passwords] = await attempt(port, name, ['none', 'password', 'password']);
      note(`password|${kind}`, name, isKnownIn(round, index), passwords);
    }),
  );
}

/** The chance that one of the first takes longer than one of the second. */
function chance(first: readonly number[], second: readonly number[]): number {
  const wins = first.map((a) => second.filter((b) => a > b).length).reduce((sum, more) => sum + more, 0);
  return wins / (first.length * second.length);
}

/** The mean, over a kind's names, of what `compare` makes of each. */
function mean(key: string, compare: (name: Samples) => number): number {
  const each = [...(samples.get(key)?.values() ?? [])].map(compare);
  return each.reduce((sum, one) => sum + one, 0) / each.length;
}

/** What a name tells: by which time it is likely to take longer, and by how often it takes twice as long. */
function reported(key: string) {
  const isDoubled = (time: number, { unknown }: Samples): boolean => time > 1.5 * percentile(unknown, 0.5);
  const share = (times: readonly number[], own: Samples): number =>
    times.filter((time) => isDoubled(time, own)).length / times.length;
  return {
    longer: mean(key, ({ known, unknown }) => chance(known, unknown)),
    doubledKnown: mean(key, (own) => share(own.known, own)),
    doubledUnknown: mean(key, (own) => share(own.unknown, own)),
  };
}

process.stdout.write(
  '| request | kind | known: median ms (p10–p90) | unknown | longer when known | stretched: known | unknown |\n',
);
process.stdout.write('|---|---|---|---|---|---|---|\n');
const percent = (share: number): string => `${Math.round(share * 100)} %`;
let isMore = false;
for (const request of ['none', 'publickey', 'password']) {
  const stockReported = reported(`${request}|${STOCK}`);
  const noise = reported(`${request}|${CONTROL}`);
  for (const { kind } of kinds) {
    const names = [...(samples.get(`${request}|${kind}`)?.values() ?? [])];
    const cells = (['known', 'unknown'] as const).map((which) => {
      const times = names.flatMap((own) => own[which]);
      const digits = request === 'password' ? 0 : 1;
      const [p50, p10, p90] = [0.5, 0.1, 0.9].map((part) => percentile(times, part).toFixed(digits));
      return `${p50} (${p10}–${p90})`;
    });
    const { longer, doubledKnown, doubledUnknown } = reported(`${request}|${kind}`);
    const shares = `${percent(doubledKnown)} | ${percent(doubledUnknown)}`;
    process.stdout.write(`| ${request} | ${kind} | ${cells.join(' | ')} | ${longer.toFixed(2)} | ${shares} |\n`);
    const distance = Math.abs(longer - 0.5) - Math.abs(stockReported.longer - 0.5);
    const stretch =
      Math.abs(doubledKnown - doubledUnknown) - Math.abs(stockReported.doubledKnown - stockReported.doubledUnknown);
    const isLonger = distance > SLACK + Math.abs(noise.longer - 0.5);
    const isStretched = stretch > SLACK + Math.abs(noise.doubledKnown - noise.doubledUnknown);
    if (isLonger || isStretched) isMore = true;
  }
}
process.stdout.write(`berth's sshd tells a known from an unknown ${isMore ? 'MORE' : 'no more'} than stock sshd\n`);
assert.ok(!isMore);

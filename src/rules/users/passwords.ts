/** Checks the rules for new passwords before hashing them. */
import { readFileSync } from 'node:fs';
import { BerthError, ValidationError } from '../../foundation/base/errors.ts';
import type { FieldProblem } from '../../foundation/base/problems.ts';
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';

/** In characters. */
const SHORTEST = 12;
const LONGEST = 200;

/** Read from `src/`, which an installation has beside the compiled program. */
const COMMON = new URL('../../../src/rules/users/common-passwords/passwords.txt', import.meta.url);

export interface Passwords extends Pick<PasswordHashing, 'matching'> {
  /**
   * @param beside as in `PasswordHashing.hash`.
   * @throws {ValidationError} about `password` when it breaks a rule.
   */
  hash(password: string, email: string, beside?: string): Promise<string>;
  /** What is wrong with a new password; undefined for a good one. */
  problem(password: string, email: string): FieldProblem | undefined;
}

export function createPasswords(hashing: PasswordHashing = createPasswordHashing()): Passwords {
  const common = new Set(readFileSync(COMMON, 'utf8').split('\n'));

  function problem(password: string, email: string): FieldProblem | undefined {
    const length = Array.from(password).length;
    if (length < SHORTEST) return ['too_short', SHORTEST];
    if (length > LONGEST) return ['too_long', LONGEST, 'character'];
    const text = password.normalize('NFKC').toLowerCase();
    if (common.has(text)) return ['common'];
    return text === email ? ['is_email'] : undefined;
  }

  return {
    matching: hashing.matching,
    problem,
    async hash(password, email, beside) {
      const wrong = problem(password, email);
      if (wrong !== undefined) throw new ValidationError({ password: [wrong] });
      return hashing.hash(password, beside);
    },
  };
}

// Hashes passwords with scrypt (RFC 7914). Each hash has its salt and its parameters. Promise: few run at a time and
// the queue is bounded, so that a flood exhausts neither memory nor the threads that Node uses for files.

/** One of OWASP's equally strong settings (Password Storage Cheat Sheet): 64 MiB and half a second of a slow core. */
const COST: Cost = { ln: 16, r: 8, p: 2 };
const SALT_BYTES = 16;
const KEY_BYTES = 32;

interface Cost {
  /** The binary logarithm of N. */
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

export interface PasswordHashing {
  /**
   * @param beside another hash for the same email. Both get the same salt, so that one scrypt compares a password with both.
   * @throws {BerthError} `rate_limited` when too many wait.
   */
  hash(password: string, beside?: string): Promise<string>;
  /**
   * Whether each of these hashes is of the password. One scrypt serves all hashes that share a salt. Without hashes, it takes
   * as long as with one.
   * @throws {BerthError} `rate_limited` when too many wait.
   */
  matching(password: string, hashes: readonly string[], from?: Origin): Promise<boolean[]>;
}

/** For somebody who is signed in, or has a link. */
const KNOWN: Origin = { network: '', site: '', isKnown: true };

const derive = promisify<string, Buffer, number, { N: number; r: number; p: number; maxmem: number }, Buffer>(scrypt);

export function createPasswordHashing(cost: Cost = COST): PasswordHashing {
  const queue = createHashingQueue();
  /** A hash of no known password, to compare with when there is no user. */
  const dummyHash = encode(cost, randomBytes(SALT_BYTES), randomBytes(KEY_BYTES));

  async function derived(password: string, { ln, r, p }: Cost, salt: Buffer, from: Origin): Promise<Buffer> {
    // Keyboards may send the same text in different code points.
    const text = password.normalize('NFKC');
    return queue(from, () => derive(text, salt, KEY_BYTES, { N: 2 ** ln, r, p, maxmem: 2 ** (ln + 8) * r }));
  }

  return {
    async hash(password, beside) {
      const shared = beside === undefined ? undefined : decode(beside);
      const salt = shared && nameOf(shared) === nameOf({ ...shared, cost }) ? shared.salt : randomBytes(SALT_BYTES);
      return encode(cost, salt, await derived(password, cost, salt, KNOWN));
    },
    async matching(password, hashes, from = KNOWN) {
      const known = hashes.map(decode);
      const keys = new Map<string, Buffer>();
      for (const each of known.length > 0 ? known : [decode(dummyHash)])
        if (!keys.has(nameOf(each))) keys.set(nameOf(each), await derived(password, each.cost, each.salt, from));
      return known.map((each) => timingSafeEqual(keys.get(nameOf(each)) ?? Buffer.alloc(KEY_BYTES), each.key));
    },
  };
}

interface Kept {
  readonly cost: Cost;
  readonly salt: Buffer;
  readonly key: Buffer;
}

/** A name for cost and salt together: one scrypt serves all hashes with the same name. */
function nameOf({ cost, salt }: Pick<Kept, 'cost' | 'salt'>): string {
  return encode(cost, salt);
}

/** Encodes a hash in the PHC string format. */
function encode({ ln, r, p }: Cost, ...parts: readonly Buffer[]): string {
  const texts = parts.map((part) => part.toString('base64').replace(/=+$/, ''));
  return ['', 'scrypt', `ln=${ln},r=${r},p=${p}`, ...texts].join('$');
}

function decode(encoded: string): Kept {
  const [, ln, r, p, salt = '', key = ''] =
    /^\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(encoded) ?? [];
  if (key === '') throw new Error('a password hash in the database cannot be read');
  const cost = { ln: Number(ln), r: Number(r), p: Number(p) };
  return { cost, salt: Buffer.from(salt, 'base64'), key: Buffer.from(key, 'base64') };
}

const AT_ONCE = 2;
const PLACES = { known: 15, stranger: 30 };
/** After this number, a stranger goes next if one waits. */
const KNOWN_IN_A_ROW = 3;
/** How many networks and sites to remember the last turn of. */
const REMEMBERED_TURNS = 10_000;

/** Where the request with a password comes from. */
export interface Origin {
  /** The network of the address (IPv6: its /64). */
  readonly network: string;
  /** The larger network that one client may own (IPv6: its /48). */
  readonly site: string;
  /** Whether the user has signed in from there before, or is signed in. */
  readonly isKnown: boolean;
}

interface Waiting extends Origin {
  readonly begin: () => void;
  readonly drop: () => void;
}

type HashingQueue = <T>(origin: Origin, work: () => Promise<T>) => Promise<T>;

/**
 * The queue for password hashing, which takes half a second and 64 MiB each time.
 *
 * Promises: a flood does not keep out users on a network that they have signed in from before: they have places of their own
 * and go first. Strangers take turns by site (a network, or all networks of one owner), so that many addresses get no more
 * than one. When all places are taken, the oldest request of the site with the most requests is dropped.
 *
 * The returned function throws {BerthError} `rate_limited` when its work is dropped.
 */
export function createHashingQueue(): HashingQueue {
  const lines: Record<keyof typeof PLACES, Waiting[]> = { known: [], stranger: [] };
  /** The number of the last turn of each network and site. */
  const turns = new LRUCache<string, number>({ max: REMEMBERED_TURNS });
  let turn = 0;
  let atWork = 0;
  let knownInARow = 0;

  const lastTurn = (name: string): number => turns.get(name) ?? 0;
  const comesFirst = (one: Waiting, other: Waiting): number =>
    lastTurn(one.site) - lastTurn(other.site) || lastTurn(one.network) - lastTurn(other.network);

  function next(): void {
    if (atWork >= AT_ONCE) return;
    const isKnownsTurn = lines.known.length > 0 && (knownInARow < KNOWN_IN_A_ROW || lines.stranger.length === 0);
    const line = isKnownsTurn ? lines.known : lines.stranger;
    // Of equals, the one that came first: sorting is stable.
    const [first] = line.toSorted(comesFirst);
    if (!first) return;
    line.splice(line.indexOf(first), 1);
    knownInARow = isKnownsTurn ? knownInARow + 1 : 0;
    turn += 1;
    turns.set(first.site, turn);
    turns.set(first.network, turn);
    atWork += 1;
    first.begin();
  }

  function enter(waiting: Waiting): void {
    const kind = waiting.isKnown ? 'known' : 'stranger';
    const line = lines[kind];
    line.push(waiting);
    next();
    if (line.length <= PLACES[kind]) return;
    const bySite = Map.groupBy(line, ({ site }) => site);
    const [largest = []] = [...bySite.values()].toSorted((one, other) => other.length - one.length);
    const [oldest] = largest;
    if (!oldest) return;
    line.splice(line.indexOf(oldest), 1);
    oldest.drop();
  }

  return async (origin, work) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const drop = (): void =>
      reject(new BerthError('rate_limited', 'Too many people are signing in. Try again in a minute.'));
    enter({ ...origin, begin: resolve, drop });
    await promise;
    try {
      return await work();
    } finally {
      atWork -= 1;
      next();
    }
  };
}

/**
 * Hashes passwords with scrypt (RFC 7914). Each hash has its salt and its parameters.
 *
 * Promise: few run at a time and the queue is bounded (`hashing-queue.ts`), so that a flood exhausts neither memory nor the
 * threads that Node uses for files.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { createHashingQueue, type Origin } from './hashing-queue.ts';

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

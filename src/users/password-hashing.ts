/**
 * Passwords as they are kept: scrypt (RFC 7914), each with its salt and its parameters.
 *
 * Promise: only a few run at a time and only so many wait, so that a flood fills neither memory nor the threads that Node
 * does all of its file work on. Whoever comes beyond that is asked to come back.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import PQueue from 'p-queue';
import { BerthError } from '../errors.ts';

/** One of OWASP's equally strong settings (Password Storage Cheat Sheet): 64 MiB and half a second of a slow core. */
const COST: Cost = { ln: 16, r: 8, p: 2 };
const [SALT, KEY] = [16, 32];
const AT_ONCE = 2;
const WAITING = 30;

interface Cost {
  /** The binary logarithm of N. */
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

export interface PasswordHashing {
  /** @throws {BerthError} `rate_limited` while too many wait, as `matches` does. */
  hash(password: string): Promise<string>;
  /** Takes as long when there is no hash, which nothing matches. */
  matches(password: string, encoded: string | null): Promise<boolean>;
}

const derive = promisify<string, Buffer, number, { N: number; r: number; p: number; maxmem: number }, Buffer>(scrypt);

export function createPasswordHashing(cost: Cost = COST): PasswordHashing {
  const queue = new PQueue({ concurrency: AT_ONCE });
  /** Of no password, as far as anybody can know. */
  const nobodys = encode(cost, randomBytes(SALT), randomBytes(KEY));

  async function derived(password: string, { ln, r, p }: Cost, salt: Buffer): Promise<Buffer> {
    if (queue.size >= WAITING)
      throw new BerthError('rate_limited', 'Too many people sign in just now. Try again soon.');
    // The same text typed on another keyboard may come in other code points.
    const text = password.normalize('NFKC');
    return queue.add(() => derive(text, salt, KEY, { N: 2 ** ln, r, p, maxmem: 2 ** (ln + 8) * r }));
  }

  return {
    async hash(password) {
      const salt = randomBytes(SALT);
      return encode(cost, salt, await derived(password, cost, salt));
    },
    async matches(password, encoded) {
      const { cost: kept, salt, key } = decode(encoded ?? nobodys);
      return timingSafeEqual(await derived(password, kept, salt), key);
    },
  };
}

/** As the PHC string format has it. */
function encode({ ln, r, p }: Cost, ...parts: readonly Buffer[]): string {
  const texts = parts.map((part) => part.toString('base64').replace(/=+$/, ''));
  return ['', 'scrypt', `ln=${ln},r=${r},p=${p}`, ...texts].join('$');
}

function decode(encoded: string): { cost: Cost; salt: Buffer; key: Buffer } {
  const [, ln, r, p, salt = '', key = ''] =
    /^\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(encoded) ?? [];
  if (key === '') throw new Error('a password hash in the database cannot be read');
  const cost = { ln: Number(ln), r: Number(r), p: Number(p) };
  return { cost, salt: Buffer.from(salt, 'base64'), key: Buffer.from(key, 'base64') };
}

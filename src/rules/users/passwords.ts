/** Checks the rules for new passwords before hashing them. */
import { readFileSync } from 'node:fs';
import { ValidationError } from '../../foundation/base/errors.ts';
import { createPasswordHashing, type PasswordHashing } from './password-hashing.ts';

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
  /** The rule that a new password breaks, as a message; undefined for none. */
  problem(password: string, email: string): string | undefined;
}

export function createPasswords(hashing: PasswordHashing = createPasswordHashing()): Passwords {
  const common = new Set(readFileSync(COMMON, 'utf8').split('\n'));

  function problem(password: string, email: string): string | undefined {
    const length = Array.from(password).length;
    if (length < SHORTEST) return `should be at least ${SHORTEST} character(s)`;
    if (length > LONGEST) return `should be at most ${LONGEST} character(s)`;
    const text = password.normalize('NFKC').toLowerCase();
    if (common.has(text)) return 'is one of the most common ones: take another';
    return text === email ? 'is your email: take another' : undefined;
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

/** Random text from the system's generator, for keys, passwords and suffixes of names. */
import { randomInt } from 'node:crypto';

/** `length` characters, each drawn evenly from `alphabet`. */
export function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
}

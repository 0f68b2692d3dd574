/** How text is shown to people: in columns on a terminal, with names and hosts that cannot deceive. */
import type { Micros } from './clock.ts';

export type Cell = string | number | null;

/** Escapes every character that could move the cursor, colour the terminal or reorder a line: names may hold anything. */
export function escaped(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** Quotes a word for any POSIX shell. */
export function shellWord(word: string): string {
  return /^[\w@:./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lays out lines in columns. A column keeps its greatest width so far; the last one is not padded. A missing value is `-`. */
export function columns(widths: number[] = []): (lines: readonly (readonly Cell[])[]) => string[] {
  return (lines) => {
    const shown = lines.map((line) => line.map((cell) => (cell === null || cell === '' ? '-' : escaped(String(cell)))));
    for (const line of shown) {
      for (const [column, text] of line.entries()) widths[column] = Math.max(widths[column] ?? 0, text.length);
    }
    const padded = shown.map((line) => line.map((text, column) => text.padEnd(widths[column] ?? 0)));
    return padded.map((line) => line.join('  ').trimEnd());
  };
}

/** A time to the second, such as `2026-11-20T20:50:00Z`; null for null. */
export function shortTime(at: Micros | null): string | null {
  return at === null ? null : new Date(Math.floor(at / 1000)).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** `1 file`, `2 files`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

// Characters that hide or reverse the text beside them, for pages that show what customers or clients have chosen.

/**
 * Control characters, characters without width, and those that change the direction of text (Unicode, UAX #9 and general
 * category Cf), except the joiners in emoji such as families.
 */
export const HIDDEN =
  /((?:(?!(?<=\p{Extended_Pictographic}\ufe0f?\p{Emoji_Modifier}?)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0])+)/gu;

/** Like a page's `Text`, for places that cannot have elements: each hidden character is shown by its code point. */
export function plainText(text: string): string {
  return text.replace(HIDDEN, codePoints);
}

export function codePoints(characters: string): string {
  const hex = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return Array.from(characters, (character) => `U+${hex(character).padStart(4, '0')}`).join(' ');
}

/** A host as URLs, sftp and `HOST:PORT` write it: an IPv6 address in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Formats text for terminals: columns, times, and names without control characters. */
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

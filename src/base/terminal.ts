/** Text for people at a terminal: columns, times, and names made harmless. */
import type { Micros } from './clock.ts';

export type Cell = string | number | null;

/** Names may hold anything: escapes every character that could move the cursor, colour the terminal or reorder a line. */
export function escaped(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** A word of a command, for any POSIX shell. */
export function shellWord(word: string): string {
  return /^[\w@:./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lays out lines in columns. A column keeps its greatest width so far; the last one is not padded; no value is `-`. */
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

/** A time to the second, null for none: `2026-11-20T20:50:00Z`. */
export function shortTime(at: Micros | null): string | null {
  return at === null ? null : new Date(Math.floor(at / 1000)).toISOString().replace(/\.\d+Z$/, 'Z');
}

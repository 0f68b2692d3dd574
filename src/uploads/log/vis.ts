/**
 * The encoding that sshd gives names in its log: vis(3) with `VIS_CSTYLE | VIS_NL | VIS_TAB | VIS_OCTAL`
 * (openssh-portable, log.c and openbsd-compat/vis.c). Printable ASCII stands for itself, a backslash is doubled,
 * every other byte becomes `\n`, `\t`, … or three octal digits.
 */

const ESCAPES: Record<string, number> = { n: 10, r: 13, b: 8, a: 7, v: 11, t: 9, f: 12, s: 32, '0': 0, '\\': 92 };

/** The bytes that an encoded text stands for, one character each. An escape that is cut off at the end is left out. */
export function unvis(text: string): string {
  if (!text.includes('\\')) return text;
  const bytes = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char !== 92) {
      bytes[length++] = char;
      continue;
    }
    const octal = /^[0-3][0-7]{2}/.exec(text.slice(i + 1, i + 4));
    if (octal) {
      bytes[length++] = Number.parseInt(octal[0], 8);
      i += 3;
      continue;
    }
    const next = text[i + 1];
    const byte = next === undefined ? undefined : ESCAPES[next];
    // `\0` may be the start of octal digits that were cut off.
    if (byte === undefined || (next === '0' && i + 4 > text.length)) break;
    bytes[length++] = byte;
    i += 1;
  }
  return bytes.toString('latin1', 0, length);
}

/** Characters that hide or reverse the text beside them, for pages that show what customers or clients have chosen. */

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

/** Text that a customer or a client has chosen, so that nothing in it hides or turns around what stands beside it. */
import type { FC } from 'hono/jsx';

/** Controls, what has no width, and what changes the direction of text (Unicode, UAX #9 and general category Cf). */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/u;
const PARTS = /([\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0])/u;

/** Each hidden character is shown by its code point, and the whole is a unit of its own direction. */
export const Text: FC<{ of: string }> = ({ of }) => {
  if (!HIDDEN.test(of)) return <bdi>{of}</bdi>;
  return (
    <bdi>
      {of
        .split(PARTS)
        .map((part) => (HIDDEN.test(part) ? <span class="hidden-character">{codePoint(part)}</span> : part))}
    </bdi>
  );
};

/** The same where there can be no elements. */
export function plainText(text: string): string {
  return HIDDEN.test(text)
    ? text
        .split(PARTS)
        .map((part) => (HIDDEN.test(part) ? codePoint(part) : part))
        .join('')
    : text;
}

function codePoint(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Text that a customer or a client has chosen, so that nothing in it hides or turns around what stands beside it. */
import type { FC } from 'hono/jsx';

/**
 * Controls, what has no width, and what changes the direction of text (Unicode, UAX #9 and general category Cf); but not the
 * joiner within an emoji such as a family.
 */
const HIDDEN =
  /((?:(?!(?<=\p{Extended_Pictographic}\ufe0f?\p{Emoji_Modifier}?)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0])+)/gu;

/** Each hidden character is shown by its code point, and the whole is a unit of its own direction. */
export const Text: FC<{ of: string }> = ({ of }) => (
  <bdi>
    {of.split(HIDDEN).map((part, index) => {
      const isHidden = index % 2 === 1;
      return isHidden ? <span class="hidden-character">{codePoints(part)}</span> : part;
    })}
  </bdi>
);

/** A name that is cut off where there is no room for it: whole in its title, and while it has the focus. */
export const Name: FC<{ of: string; href?: string }> = ({ of, href }) =>
  href === undefined ? (
    <span class="name" title={titleOf(of)}>
      <Text of={of} />
    </span>
  ) : (
    <a class="name" href={href} title={titleOf(of)}>
      <Text of={of} />
    </a>
  );

/** Characters of a name for which there is room everywhere. */
const SHORT = 30;

const titleOf = (name: string): string | undefined => (name.length > SHORT ? plainText(name) : undefined);

/** The same where there can be no elements. */
export function plainText(text: string): string {
  return text.replace(HIDDEN, codePoints);
}

function codePoints(characters: string): string {
  const hex = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return Array.from(characters, (character) => `U+${hex(character).padStart(4, '0')}`).join(' ');
}

/** A hidden character takes more room in a page than it has bytes. */
const HIDDEN_WEIGHT = 8;

/** Cuts a text to about `most` characters, so that a page stays small whatever they are. */
export function clipped(text: string, most: number): string {
  let end = 0;
  let weight = 0;
  for (const character of text) {
    weight += character.search(HIDDEN) === 0 ? HIDDEN_WEIGHT : 1;
    if (weight > most) return `${text.slice(0, end)}…`;
    end += character.length;
  }
  return text;
}

/**
 * Bytes as text, line by line; what is no UTF-8 shows as U+FFFD.
 * @param most as for `clipped`; all of it when left out.
 */
export const Bytes: FC<{ of: Uint8Array; most?: number }> = ({ of, most = Infinity }) => (
  <pre tabindex={0}>
    {clipped(Buffer.from(of).toString(), most)
      .split(/\r?\n/)
      .flatMap((line, index) => [index > 0 && '\n', <Text of={line} />])}
  </pre>
);

/** Shows text that customers or clients have chosen, so that it cannot hide or reverse the text beside it. */
import type { FC } from 'hono/jsx';
import { codePoints, HIDDEN, plainText } from '../../../foundation/base/hidden-characters.ts';

/** Shows each hidden character by its code point. The text's direction does not affect the text around it. */
export const Text: FC<{ of: string }> = ({ of }) => (
  <bdi>
    {of.split(HIDDEN).map((part, index) => {
      const isHidden = index % 2 === 1;
      return isHidden ? <span class="hidden-character">{codePoints(part)}</span> : part;
    })}
  </bdi>
);

/** A name that is cut off if there is no room for it. It is complete in its tooltip, and while it has the focus. */
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

/** A name of at most this many characters fits everywhere. */
const SHORT = 30;

const titleOf = (name: string): string | undefined => (name.length > SHORT ? plainText(name) : undefined);

/** How much more of a page a hidden character takes than a visible one. */
const HIDDEN_WEIGHT = 8;

/** Cuts a text to about `most` characters, so that a page stays small whatever they are. */
export function clipped(text: string, most: number): string {
  if (text.length <= most && text.search(HIDDEN) < 0) return text;
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
 * Shows bytes as text, line by line. Bytes that are not UTF-8 are shown as U+FFFD.
 * @param most as in `clipped`. By default, everything is shown.
 */
export const Bytes: FC<{ of: Uint8Array; most?: number }> = ({ of, most = Infinity }) => (
  <pre tabindex={0}>
    {clipped(Buffer.from(of).toString(), most)
      .split(/\r?\n/)
      .flatMap((line, index) => [index > 0 && '\n', <Text of={line} />])}
  </pre>
);

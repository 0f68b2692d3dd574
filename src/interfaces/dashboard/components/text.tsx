/** Shows text that customers or clients have chosen, so that it cannot hide or reverse the text beside it. */
import { setImmediate } from 'node:timers/promises';
import type { FC } from 'hono/jsx';
import { codePoints, HIDDEN, plainText } from '../../../foundation/base/text.ts';

/** About how many characters of a text are shown unless its place says otherwise. */
const LONGEST = 500;

interface TextProps {
  readonly of: string;
  /** About how many characters are shown, as in `clipped`. */
  readonly most?: number;
}

/**
 * Shows each hidden character by its code point. The text's direction does not affect the text around it. A long text is cut,
 * since rendering it would hold up all other requests.
 */
export const Text: FC<TextProps> = ({ of, most = LONGEST }) => (
  <bdi>
    {clipped(of, most)
      .split(HIDDEN)
      .map((part, index) => {
        const isHidden = index % 2 === 1;
        return isHidden ? <span class="hidden-character">{codePoints(part)}</span> : part;
      })}
  </bdi>
);

/** A name that is cut off on a narrow screen. There it is complete in its tooltip, and while it has the focus. */
export const Name: FC<TextProps & { href?: string }> = ({ of, most = LONGEST, href }) => {
  const Element = href === undefined ? 'span' : 'a';
  return (
    <Element class="name" href={href} title={of.length > SHORT ? plainText(clipped(of, most)) : undefined}>
      <Text of={of} most={most} />
    </Element>
  );
};

/** A name of at most this many characters fits everywhere. */
const SHORT = 30;

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
      .flatMap((line, index) => [index > 0 && '\n', <Text of={line} most={Infinity} />])}
  </pre>
);

/** How many characters are escaped at once. */
const PIECE = 100_000;

/** A text of any length, as it is. Other requests have their turn between its pieces. */
export const LongText: FC<{ of: string }> = ({ of }) => (
  <>
    {of.slice(0, PIECE)}
    {of.length > PIECE && <LaterPieces of={of.slice(PIECE)} />}
  </>
);

const LaterPieces = async (props: { of: string }) => {
  await setImmediate();
  return <LongText {...props} />;
};

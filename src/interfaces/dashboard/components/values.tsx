/** Components for times, sizes, states and texts to copy. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { formatMicros, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { ShownOnce } from '../after-redirect.ts';

/**
 * How long ago a time is, or with `isExact` the time itself. The server writes what the script will: it only counts on, and puts
 * the times into the reader's zone.
 */
export const Time: FC<{ at: Micros | null; isExact?: boolean }> = ({ at, isExact = false }) => {
  if (at === null) return <span class="quiet">never</span>;
  const text = formatMicros(at);
  const exact = `${text.slice(0, 10)} ${text.slice(11, 19)}`;
  return (
    <time datetime={text} title={`${exact} UTC`} data-exact={isExact ? '' : undefined}>
      {isExact ? exact : relative(at, Date.now() * 1000)}
    </time>
  );
};

/** Each unit with how many seconds it has, up to which span it is used. `script.js` has the same. */
const STEPS = [
  [60, 1, 'second'],
  [3600, 60, 'minute'],
  [86_400, 3600, 'hour'],
  [2_592_000, 86_400, 'day'],
] as const;
const spans = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

function relative(at: Micros, now: Micros): string {
  const ago = (at - now) / SECOND;
  const step = STEPS.find(([limit]) => Math.abs(ago) < limit);
  if (!step) return formatMicros(at).slice(0, 10);
  const [, unit, name] = step;
  return name === 'second' ? 'just now' : spans.format(Math.round(ago / unit), name);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function sizeInWords(bytes: number): string {
  const step = Math.min(UNITS.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const number = bytes / 1024 ** step;
  return `${step === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${UNITS[step]}`;
}

/** A span in its two largest units: 9 s, 2 min 5 s, 3 h 20 min. */
export function spanInWords(span: Micros): string {
  const seconds = Math.round(span / SECOND);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes > 0) return seconds % 60 > 0 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  return `${seconds} s`;
}

/** 1,234 */
export const counted = (count: number): string => count.toLocaleString('en');

/** A size, with the exact number in its tooltip. */
export const Size: FC<{ bytes: number }> = ({ bytes }) => (
  <span title={`${counted(bytes)} bytes`}>{sizeInWords(bytes)}</span>
);

export const Badge: FC<{ kind: 'good' | 'bad' | 'waiting' | 'quiet'; text: string }> = ({ kind, text }) => (
  <span class={`badge ${kind}`}>{text}</span>
);

interface CopyButtonProps {
  readonly text: string;
  /** What the button copies. */
  readonly label?: string | undefined;
  /** The word on the button. */
  readonly say?: string;
  /** Whether it looks like a button, and not like a link. */
  readonly isButton?: boolean;
}

/** The button is shown only if there is JavaScript. */
export const CopyButton: FC<CopyButtonProps> = ({ text, label, say = 'Copy', isButton = false }) => (
  <button type="button" class={isButton ? undefined : 'copy'} data-copy={text} hidden>
    {say}
    {label !== undefined && <span class="unseen"> {label}</span>}
  </button>
);

/** Lines of code with a button that copies them, which is at the end of the first line. */
export const Code: FC<{ text: string; label?: string }> = ({ text, label }) => (
  <div class="code">
    <pre tabindex={0}>{text}</pre>
    <CopyButton text={text} label={label} />
  </div>
);

/** A line of text with a button that copies it. */
export const Copyable: FC<{ text: string; label?: string; secret?: string }> = ({ text, label, secret }) => (
  <span class="copyable">
    <code data-secret={secret}>{text}</code>
    <CopyButton text={text} label={label} />
  </span>
);

/** A list of names and values, without those that are undefined. */
export const Facts: FC<{ of: Readonly<Record<string, Child>> }> = ({ of }) => (
  <dl>{Object.entries(of).map(([name, value]) => value !== undefined && [<dt>{name}</dt>, <dd>{value}</dd>])}</dl>
);

/** Shows a secret that was just created, if there is one. `label` says what it is, and the children what to do with it. */
export const Secret: FC<PropsWithChildren<{ of: ShownOnce | undefined; label: string }>> = ({ of, label, children }) =>
  of ? (
    <div class="secret" role="status">
      <strong>{label}</strong>
      <p>
        <Copyable text={of.value} label={label} secret={of.kind} />
      </p>
      <p>
        {of.kind === 'recovery-codes' ? 'These codes won’t be shown again.' : 'This is the only time it is shown.'} Copy{' '}
        {of.kind === 'recovery-codes' ? 'them' : 'it'} now and keep {of.kind === 'recovery-codes' ? 'them' : 'it'} safe.
      </p>
      {children}
    </div>
  ) : (
    <></>
  );

/** ` by dana@example.com`, or ` by key "nightly import"`; empty if nobody is known. */
export function madeBy(created_by: string | null, makers: ReadonlyMap<string, string>): string {
  if (created_by === null) return '';
  const name = makers.get(created_by);
  return ` by ${name === undefined ? created_by.replace(/^\w+:/, '') : `key "${name}"`}`;
}

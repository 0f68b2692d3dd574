/** A bar chart of days in UTC, drawn on the server, and links for choosing how many. */
import { html as markup } from 'hono/html';
import type { FC } from 'hono/jsx';
import { DAY, formatMicros, type Micros } from '../../../foundation/base/clock.ts';
import { Links } from './section.tsx';
import { counted } from './values.tsx';

const SPANS = [7, 30, 90] as const;
export type Days = (typeof SPANS)[number];

export function daysIn(text: string | undefined): Days {
  return SPANS.find((days) => String(days) === text) ?? 30;
}

export const DaysChoice: FC<{ current: Days }> = ({ current }) => (
  <div class="span">
    <Links
      class="views"
      label="Days"
      links={Object.fromEntries(SPANS.map((days) => [`${days} days`, `?days=${days}`]))}
      current={`${current} days`}
    />
    <p class="quiet">Days start at 00:00 UTC.</p>
  </div>
);

/** About as many as pixels on a large screen. */
const WIDTH = 1000;
const HEIGHT = 120;
/** Room for the labels, which are larger on a phone. */
const TOP = 40;
const LABEL = 44;
/** Room for a label's width on a phone. One that begins further to the right ends at the edge. */
const WIDEST = 140;

interface DayChartProps {
  readonly title: string;
  /** The start of each day in UTC, at least one, and its value; today is the last. */
  readonly days: readonly { readonly day: Micros; readonly value: number }[];
}

/** The line at the top is labelled as the peak. */
export const DayChart: FC<DayChartProps> = ({ title, days }) => {
  const highest = Math.max(1, ...days.map(({ value }) => value));
  const peak = counted(Math.max(...days.map(({ value }) => value)));
  const step = WIDTH / days.length;
  const bottom = TOP + HEIGHT;
  return (
    <svg class="chart" viewBox={`0 0 ${WIDTH} ${bottom + LABEL}`} role="img" aria-label={`${title}, at most ${peak}`}>
      <rect class="axis" y={TOP} width={WIDTH} height={1} />
      <text class="peak" y={TOP - 8}>
        Peak {peak}
      </text>
      {days.map(({ day, value }, index) => {
        const height = value === 0 ? 0 : Math.max(2, Math.round((value / highest) * HEIGHT));
        const [x, width] = [
          Math.round(index * step * 10) / 10,
          Math.max(1, Math.round((step - Math.min(4, step / 4)) * 10) / 10),
        ];
        const mark = markOf(day, index, days.length);
        // Strings, because elements for a chart of 90 days would take most of the page's time.
        const tick =
          mark !== undefined &&
          (x > WIDTH - WIDEST
            ? markup`<text x="${WIDTH}" y="${bottom + 8}" text-anchor="end">${mark}</text>`
            : markup`<text x="${x}" y="${bottom + 8}">${mark}</text>`);
        const about = `${formatMicros(day).slice(0, 10)}: ${counted(value)}`;
        return markup`<rect x="${x}" y="${bottom - height}" width="${width}" height="${height}"><title>${about}</title></rect>${tick}`;
      })}
      <rect class="axis" y={bottom} width={WIDTH} height={1} />
    </svg>
  );
};

/** Labels each day of a week, each Monday of a month, and every third Monday of a longer time. */
function markOf(day: Micros, index: number, count: number): string | undefined {
  const date = new Date(day / 1000);
  const words = (options: Intl.DateTimeFormatOptions) =>
    date.toLocaleDateString('en-GB', { ...options, timeZone: 'UTC' });
  if (count <= 7) return words({ weekday: 'short', day: 'numeric' });
  const isMonday = date.getUTCDay() === 1;
  if (!isMonday || index >= count - count / 8) return undefined;
  if (count > 30 && Math.floor(day / DAY / 7) % 3 !== 0) return undefined;
  return words({ day: 'numeric', month: 'short' });
}

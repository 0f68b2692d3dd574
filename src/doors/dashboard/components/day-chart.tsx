/** A chart of days, and links for choosing how many. Days are in UTC. */
import type { FC } from 'hono/jsx';
import { DAY, formatMicros, type Micros } from '../../../foundation/base/clock.ts';
import { BarChart } from './chart.tsx';
import { Links } from './section.tsx';

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

interface DayChartProps {
  readonly title: string;
  /** The start of each day in UTC; today is the last. */
  readonly days: readonly Micros[];
  /** A value for each day; undefined if it is not known. */
  readonly values: readonly (number | undefined)[];
  inWords(value: number): string;
}

export const DayChart: FC<DayChartProps> = ({ title, days, values, inWords }) => {
  const bars = days.map((day, index) => {
    const value = values[index];
    const text = value === undefined ? 'not known' : inWords(value);
    return { name: formatMicros(day).slice(0, 10), value: value ?? 0, text, mark: markOf(day, index, days.length) };
  });
  return <BarChart title={title} bars={bars} most={inWords(Math.max(0, ...values.map((each) => each ?? 0)))} />;
};

/** Labels each day of a week, each Monday of a month, and every third Monday of a longer time. */
function markOf(day: Micros, index: number, count: number): string | undefined {
  const date = new Date(day / 1000);
  const words = (options: Intl.DateTimeFormatOptions) =>
    date.toLocaleDateString('en-GB', { ...options, timeZone: 'UTC' });
  if (count <= 7) return words({ weekday: 'short', day: 'numeric' });
  const isMonday = date.getUTCDay() === 1;
  if (!isMonday || index >= count - count / 8) return undefined;
  if (count <= 30) return words({ day: 'numeric', month: 'short' });
  return Math.floor(day / DAY / 7) % 3 === 0 ? words({ day: 'numeric', month: 'short' }) : undefined;
}

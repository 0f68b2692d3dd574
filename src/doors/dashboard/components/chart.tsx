/** A bar chart, drawn on the server. */
import { html as markup } from 'hono/html';
import type { FC } from 'hono/jsx';

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** The value as text. */
  readonly text: string;
  /** The label below the bar, if it has one. */
  readonly mark?: string | undefined;
}

/** `most` is the highest value as text. */
interface ChartProps {
  readonly title: string;
  readonly bars: readonly Bar[];
  readonly most: string;
}

/** About as many as pixels on a large screen. */
const WIDTH = 1000;
const HEIGHT = 120;
/** Room for the labels, which are larger on a phone. */
const TOP = 40;
const LABEL = 44;
/** Room for a label's width on a phone. One that begins further to the right ends at the edge. */
const WIDEST = 140;

/** Needs at least one bar. The line at the top is labelled as the peak. */
export const BarChart: FC<ChartProps> = ({ title, bars, most }) => {
  const highest = Math.max(1, ...bars.map(({ value }) => value));
  const step = WIDTH / bars.length;
  const bottom = TOP + HEIGHT;
  return (
    <svg class="chart" viewBox={`0 0 ${WIDTH} ${bottom + LABEL}`} role="img" aria-label={`${title}, at most ${most}`}>
      <rect class="axis" y={TOP} width={WIDTH} height={1} />
      <text class="peak" y={TOP - 8}>
        Peak {most}
      </text>
      {bars.map(({ name, value, text, mark }, index) => {
        const height = value === 0 ? 0 : Math.max(2, Math.round((value / highest) * HEIGHT));
        const [x, width] = [
          Math.round(index * step * 10) / 10,
          Math.max(1, Math.round((step - Math.min(4, step / 4)) * 10) / 10),
        ];
        // Strings, because elements for a chart of 90 days would take most of the page's time.
        const tick =
          mark !== undefined &&
          (x > WIDTH - WIDEST
            ? markup`<text x="${WIDTH}" y="${bottom + 8}" text-anchor="end">${mark}</text>`
            : markup`<text x="${x}" y="${bottom + 8}">${mark}</text>`);
        return markup`<rect x="${x}" y="${bottom - height}" width="${width}" height="${height}"><title>${name}: ${text}</title></rect>${tick}`;
      })}
      <rect class="axis" y={bottom} width={WIDTH} height={1} />
    </svg>
  );
};

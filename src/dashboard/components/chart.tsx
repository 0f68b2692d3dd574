/** Bars drawn on the server, and the same numbers in a table for those who read rather than look. */
import type { FC } from 'hono/jsx';

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** The value in words. */
  readonly text: string;
}

const [WIDTH, HEIGHT, GAP] = [600, 120, 4];

/** `title`: what is shown. `of`: what `name` is, such as Day. At least one bar. */
export const BarChart: FC<{ title: string; of: string; bars: readonly Bar[] }> = ({ title, of, bars }) => {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  const step = WIDTH / bars.length;
  return (
    <>
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT + 2}`} role="img" aria-label={title}>
        {bars.map(({ name, value, text }, index) => {
          const height = value === 0 ? 0 : Math.max(2, Math.round((value / most) * HEIGHT));
          const [x, width] = [Math.round(index * step), Math.round(step - GAP)];
          return (
            <rect x={x} y={HEIGHT - height} width={width} height={height} rx={2}>
              <title>{`${name}: ${text}`}</title>
            </rect>
          );
        })}
        <rect class="axis" y={HEIGHT} width={WIDTH} height={1} />
      </svg>
      <p class="ends">
        <span>{bars[0]?.name}</span>
        <span>{bars.at(-1)?.name}</span>
      </p>
      <details>
        <summary>{title} as a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">{of}</th>
              <th scope="col" class="number">
                {title}
              </th>
            </tr>
          </thead>
          <tbody>
            {bars.toReversed().map(({ name, text }) => (
              <tr>
                <th scope="row">{name}</th>
                <td class="number">{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
};

/** Metrics in Prometheus' text format (version 0.0.4), each of which is counted as things happen, or read at each scrape. */

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface Described {
  readonly name: string;
  readonly help: string;
}

export type Labels = Readonly<Record<string, string | number>>;

/** A number, or one for each value of the metric's label. Empty when the number is unknown now. */
export type Samples = number | Readonly<Record<string, number>>;

interface Metric extends Described {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** Lines of samples. */
  lines(): readonly string[] | Promise<readonly string[]>;
}

export class Registry {
  readonly #metrics: Metric[] = [];

  add(metric: Metric): void {
    this.#metrics.push(metric);
  }

  /** @throws what a scraped metric throws. */
  async text(): Promise<string> {
    const texts = await Promise.all(
      this.#metrics.map(async (metric) => {
        const { name, help, type } = metric;
        const about = [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`];
        return [...about, ...(await metric.lines()), ''].join('\n');
      }),
    );
    return texts.join('\n');
  }
}

/**
 * Returns a function that adds to the counter of these labels.
 * @param known the labels that are shown from the start, with 0: alerts see no increase of a counter that appears with its first event.
 */
export function counter(
  registry: Registry,
  { name, help }: Described,
  known: readonly Labels[] = [],
): (by: number, labels?: Labels) => void {
  const sums = new Map(known.map((labels) => [shownLabels(labels), 0]));
  const lines = (): string[] => [...sums].map(([labels, sum]) => `${name}${labels} ${numberText(sum)}`);
  registry.add({ name, help, type: 'counter', lines });
  return (by, labels = {}) => {
    const key = shownLabels(labels);
    sums.set(key, (sums.get(key) ?? 0) + by);
  };
}

/**
 * Returns a function that records a value.
 * @param bounds the upper bounds of the buckets, in order.
 */
export function histogram(registry: Registry, { name, help }: Described, bounds: readonly number[]) {
  const buckets = [...bounds, Infinity].map((bound) => ({ bound, count: 0 }));
  let sum = 0;
  const lines = (): string[] => [
    ...buckets.map(({ bound, count }) => `${name}_bucket${shownLabels({ le: numberText(bound) })} ${count}`),
    `${name}_sum ${numberText(sum)}`,
    `${name}_count ${buckets.at(-1)?.count ?? 0}`,
  ];
  registry.add({ name, help, type: 'histogram', lines });
  return (value: number): void => {
    sum += value;
    for (const bucket of buckets) if (value <= bucket.bound) bucket.count += 1;
  };
}

/** Adds a metric whose value is read at each scrape. */
export function scraped(
  registry: Registry,
  type: 'counter' | 'gauge',
  { name, help, label = '' }: Described & { readonly label?: string },
  read: () => Samples | Promise<Samples>,
): void {
  const lines = async (): Promise<string[]> => {
    const samples = await read();
    if (typeof samples === 'number') return [`${name} ${numberText(samples)}`];
    return Object.entries(samples).map(
      ([value, sample]) => `${name}${shownLabels({ [label]: value })} ${numberText(sample)}`,
    );
  };
  registry.add({ name, help, type, lines });
}

function numberText(value: number): string {
  return value === Infinity ? '+Inf' : value === -Infinity ? '-Inf' : String(value);
}

function shownLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escaped(String(value)).replaceAll('"', '\\"')}"`,
  );
  return pairs.length === 0 ? '' : `{${pairs.join()}}`;
}

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');

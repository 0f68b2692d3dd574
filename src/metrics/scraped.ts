/** Makes a metric whose value is read at each scrape. */
import type { Counter, CounterConfiguration, Gauge, GaugeConfiguration, Registry } from 'prom-client';

/** A number, or one for each value of the metric's label. Empty when the number is unknown now. */
export type Samples = number | Readonly<Record<string, number>>;

export function scraped(
  registry: Registry,
  Metric: new (options: CounterConfiguration<string> & GaugeConfiguration<string>) => Counter | Gauge,
  { name, help, label = '' }: { name: string; help: string; label?: string },
  read: () => Samples | Promise<Samples>,
): void {
  const metric = new Metric({
    name,
    help,
    labelNames: label === '' ? [] : [label],
    registers: [],
    async collect() {
      const samples = await read();
      metric.reset();
      if (label === '') metric.remove(); // reset leaves a 0
      if (typeof samples === 'number') metric.inc(samples);
      else for (const [value, sample] of Object.entries(samples)) metric.inc({ [label]: value }, sample);
    },
  });
  registry.registerMetric(metric);
}

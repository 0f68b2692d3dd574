/** How the process itself is: whether its event loop keeps up, its memory and processor time. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';

/** How often the loop's delay is sampled, in ms. */
const RESOLUTION = 20;

/** Measures until it is disposed of. */
export function processMetrics(registry: Registry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION });
  delay.enable();
  const registers: Registry[] = [];
  const lag = new Gauge({
    name: 'berth_event_loop_lag_seconds',
    help: 'How late the event loop was since the last scrape: median, 99th percentile and worst.',
    labelNames: ['quantile'],
    registers,
    collect() {
      // The histogram holds whole intervals, in ns.
      const late = (ns: number): number => (delay.count === 0 ? 0 : Math.max(0, ns / 1e6 - RESOLUTION) / 1000);
      this.set({ quantile: '0.5' }, late(delay.percentile(50)));
      this.set({ quantile: '0.99' }, late(delay.percentile(99)));
      this.set({ quantile: '1' }, late(delay.max));
      delay.reset();
    },
  });
  const memory = new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory.',
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  const cpu = new Counter({
    name: 'process_cpu_seconds_total',
    help: 'Processor time, user and system together.',
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1_000_000);
    },
  });
  const start = new Gauge({
    name: 'process_start_time_seconds',
    help: 'When the process began, in seconds since 1970.',
    registers,
  });
  start.set(performance.timeOrigin / 1000);
  for (const metric of [lag, memory, cpu, start]) registry.registerMetric(metric);
  return { [Symbol.dispose]: () => void delay.disable() };
}

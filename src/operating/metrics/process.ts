/** Metrics of this process, under the names that the clients of Prometheus share. */
import { readdir, readFile } from 'node:fs/promises';
import { type Registry, scraped } from './registry.ts';

export function processMetrics(registry: Registry): void {
  const metric = (type: 'counter' | 'gauge') => (name: string, help: string, read: () => number | Promise<number>) =>
    // Without /proc, for example, the others are still there.
    scraped(registry, type, { name, help }, async () => Promise.try(read).catch(() => ({})));
  const counter = metric('counter');
  const gauge = metric('gauge');
  const began = Date.now() / 1000 - process.uptime();

  const cpu = { user: () => process.cpuUsage().user / 1e6, system: () => process.cpuUsage().system / 1e6 };
  counter('process_cpu_user_seconds_total', 'Processor time of all threads outside of the kernel.', cpu.user);
  counter('process_cpu_system_seconds_total', 'Processor time of all threads in the kernel.', cpu.system);
  counter('process_cpu_seconds_total', 'Processor time of all threads.', () => cpu.user() + cpu.system());
  gauge('process_start_time_seconds', 'When the process began, in seconds since 1970.', () => began);
  gauge('process_resident_memory_bytes', 'Memory in use.', () => process.memoryUsage.rss());
  gauge('process_virtual_memory_bytes', 'Address space in use.', async () => {
    const [, kibibytes] = /^VmSize:\s+(\d+) kB$/m.exec(await readFile('/proc/self/status', 'utf8')) ?? [];
    return Number(kibibytes) * 1024;
  });
  gauge('process_open_fds', 'Open file descriptors.', async () => (await readdir('/proc/self/fd')).length);
  gauge('process_max_fds', 'The most file descriptors that may be open.', async () => {
    const [, most] = /^Max open files +(\d+)/m.exec(await readFile('/proc/self/limits', 'utf8')) ?? [];
    return Number(most);
  });
  gauge('nodejs_heap_size_total_bytes', 'The size of the JavaScript heap.', () => process.memoryUsage().heapTotal);
  gauge('nodejs_heap_size_used_bytes', 'The part of it that is in use.', () => process.memoryUsage().heapUsed);
  gauge('nodejs_external_memory_bytes', 'Memory of buffers and libraries.', () => process.memoryUsage().external);
}

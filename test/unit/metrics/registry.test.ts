/** The text that Prometheus reads. */
import { test } from 'node:test';
import { processMetrics } from '../../../src/operating/metrics/state.ts';
import { counter, histogram, Registry, scraped } from '../../../src/operating/metrics/registry.ts';

import assert from 'node:assert/strict';

test('counters have a line for each of their labels, and the known ones from the start', async () => {
  const registry = new Registry();
  const bytes = counter(registry, { name: 'bytes_total', help: 'Bytes.' }, [{}]);
  const requests = counter(registry, { name: 'requests_total', help: 'Requests.' }, [{ status: 200 }]);
  const before = '# HELP bytes_total Bytes.\n# TYPE bytes_total counter\nbytes_total 0\n';
  assert.ok((await registry.text()).startsWith(`${before}\n`));
  bytes(1);
  bytes(2.5);
  requests(1, { status: 200 });
  requests(1, { status: 404, route: '/x' });
  requests(1, { status: 404, route: '/x' });
  assert.equal(
    await registry.text(),
    `# HELP bytes_total Bytes.
# TYPE bytes_total counter
bytes_total 3.5

# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{status="200"} 1
requests_total{status="404",route="/x"} 2
`,
  );
});

test('a histogram counts each value in every bucket that it fits in', async () => {
  const registry = new Registry();
  const seconds = histogram(registry, { name: 'seconds', help: 'Seconds.' }, [0.5, 1]);
  for (const value of [0.25, 0.5, 0.75, 4]) seconds(value);
  assert.equal(
    await registry.text(),
    `# HELP seconds Seconds.
# TYPE seconds histogram
seconds_bucket{le="0.5"} 2
seconds_bucket{le="1"} 3
seconds_bucket{le="+Inf"} 4
seconds_sum 5.5
seconds_count 4
`,
  );
});

test('what is read at a scrape: one value, one for each label, or none; no text breaks a line', async () => {
  const registry = new Registry();
  scraped(registry, 'gauge', { name: 'one', help: 'a \\ b\nc' }, () => 1);
  scraped(registry, 'gauge', { name: 'some', help: 'd', label: 'loop' }, async () => ({ 'x "y"\n\\': 2, z: NaN }));
  scraped(registry, 'counter', { name: 'none', help: 'e' }, () => ({}));
  assert.equal(
    await registry.text(),
    `# HELP one a \\\\ b\\nc
# TYPE one gauge
one 1

# HELP some d
# TYPE some gauge
some{loop="x \\"y\\"\\n\\\\"} 2
some{loop="z"} NaN

# HELP none e
# TYPE none counter
`,
  );
  scraped(registry, 'gauge', { name: 'bad', help: 'f' }, () => Promise.reject(new Error('no answer')));
  await assert.rejects(registry.text(), /no answer/);
});

test('the process: all of what is named, and likely values', async () => {
  const registry = new Registry();
  processMetrics(registry);
  const text = await registry.text();
  const value = (name: string): number => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
  assert.equal([...text.matchAll(/^# TYPE /gm)].length, [...text.matchAll(/^\w+ [\d.e+-]+$/gm)].length, text);
  const cpu = value('process_cpu_user_seconds_total') + value('process_cpu_system_seconds_total');
  assert.ok(Math.abs(value('process_cpu_seconds_total') - cpu) < 0.1);
  assert.ok(Math.abs(value('process_start_time_seconds') + process.uptime() - Date.now() / 1000) < 1);
  const resident = value('process_resident_memory_bytes');
  assert.ok(resident > 20e6 && resident < value('process_virtual_memory_bytes'));
  assert.ok(value('process_open_fds') > 3 && value('process_open_fds') < value('process_max_fds'));
  assert.ok(value('nodejs_heap_size_used_bytes') <= value('nodejs_heap_size_total_bytes'));
});

/** The alert rules, the example of a Grafana dashboard, and /metrics agree: both are well-formed and name only what berth shows. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { firstPair } from '../../../src/interfaces/http/certificate.ts';
import { systemClock } from '../../../src/foundation/base/clock.ts';
import { noteBackup } from '../../../src/foundation/base/last-backup.ts';
import { createLog } from '../../../src/foundation/base/log.ts';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { createMetrics, type MetricsServer } from '../../../src/operating/metrics/start.ts';
import { postgresOnly, psql, urlOf } from '../../support/postgres.ts';
import { promtool } from '../../support/promtool.ts';
import { type Scratch, scratch } from '../../support/scratch.ts';

const PACKAGING = new URL('../../../packaging/', import.meta.url);
const RULES = new URL('monitoring/alerts.yml', PACKAGING);
const DASHBOARD = new URL('examples/grafana-dashboard.json', PACKAGING);

interface Rule {
  alert?: string;
  expr?: string;
  for?: string;
  severity?: string;
  summary?: string;
  description?: string;
}

/** The rules of a file that is written in just this shape; any other line is refused. */
function rulesOf(text: string): Rule[] {
  const rules: Rule[] = [];
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  assert.deepEqual(lines.splice(0, 3), ['groups:', '  - name: berth', '    rules:']);
  for (const line of lines) {
    const [, indent = '', key = '', value = ''] = /^( {6}- | {8}| {10})(\w+):(?: (.+))?$/.exec(line) ?? [];
    assert.notEqual(key, '', line);
    // What plain YAML scalars may not hold.
    assert.doesNotMatch(value, /: | #|^["'&*!|>%@`[\]{}]/, line);
    if (indent.endsWith('- ')) rules.push({});
    Object.assign(rules.at(-1) ?? {}, { [key]: value });
  }
  return rules;
}

/** Every metric that an expression names, without what PromQL adds to a histogram's name. */
function named(expression: string): string[] {
  const names = expression.replaceAll(/"[^"]*"/g, '').match(/\b(?:(?:berth|process)_\w+|up\b)/g) ?? [];
  return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
}

async function serving(place: Scratch, port: number | 'off', lines: string[] = [], isUp = true) {
  mkdirSync(place.config.stateDir, { recursive: true });
  const database = await openDatabase(place.config.database);
  const metrics = createMetrics();
  if (isUp) noteBackup(place.config, 1_795_000_000_000_000);
  const clock = systemClock();
  const config = { ...place.config, jailDir: place.dir, settleSeconds: 0, metrics: { host: '127.0.0.1', port } };
  const checked = metrics.check({ config, database, clock });
  checked('passed', 0.1);
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const background = { failures: () => new Map([['history', 2]]) };
  const server: MetricsServer = await metrics.serve(
    { config, database, background, clock, log },
    {
      paths: { deniedLogins: join(place.dir, 'denied-logins') },
      isSshdUp: () => isUp,
      isJailDiskThere: () => isUp,
      isCertificateRefused: () => !isUp,
      uploads: () => ({ sessions: 2, transferLogRead: true, watchesComplete: false }),
    },
  );
  return {
    metrics,
    server,
    async [Symbol.asyncDispose]() {
      await server.close();
      metrics.close();
      await database.close();
    },
  };
}

test('alerts and dashboard name only metrics that /metrics shows, and the dashboard all of berth’s own', async () => {
  using place = scratch();
  await using running = await serving(place, 0);
  running.metrics.request({ method: 'GET', route: '/healthz', status: 200, ms: 1 });
  const text = await (await fetch(`http://127.0.0.1:${running.server.port}/metrics`)).text();
  assert.match(text, /^berth_background_failures_total\{loop="history"\} 2$/m);
  const shown = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name ?? ''));

  const rules = rulesOf(readFileSync(RULES, 'utf8'));
  assert.ok(rules.length >= 12);
  for (const rule of rules) {
    assert.deepEqual(Object.keys(rule).toSorted(), [
      'alert',
      'annotations',
      'description',
      'expr',
      'for',
      'labels',
      'severity',
      'summary',
    ]);
    assert.ok(named(rule.expr ?? '').length > 0);
  }
  const runbook = readFileSync(new URL('../../../docs/runbook.md', import.meta.url), 'utf8');
  assert.deepEqual(
    [...runbook.matchAll(/^## (\w+)$/gm)].map(([, name]) => name),
    rules.map(({ alert }) => alert),
  );
  const dashboard = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as { panels: { targets: { expr: string }[] }[] };
  const drawn = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  const expressions = [...rules.map(({ expr = '' }) => expr), ...drawn];
  for (const expression of expressions) {
    for (const [open, close] of ['()', '{}', '[]']) {
      assert.equal(expression.split(open ?? '').length, expression.split(close ?? '').length, expression);
    }
  }
  // Prometheus itself adds `up` to every target.
  const unknown = expressions.flatMap(named).filter((name) => name !== 'up' && !shown.has(name));
  assert.deepEqual(unknown, []);
  const undrawn = [...shown].filter((name) => name.startsWith('berth_') && !drawn.flatMap(named).includes(name));
  assert.deepEqual(undrawn, []);
});

test('while PostgreSQL is away, the scrape says so and has what the machine says', postgresOnly, async () => {
  using place = scratch();
  await using running = await serving(place, 0);
  const scrape = async (): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${running.server.port}/metrics`);
    assert.equal(answer.status, 200);
    return answer.text();
  };
  assert.match(await scrape(), /^berth_database_up 1\n[^]*^berth_outbox_deliveries\{state="queued"\} 0$/m);
  psql(urlOf('postgres'), `drop database ${/@\/(\w+)/.exec(place.config.database)?.[1]} with (force)`);
  const text = await scrape();
  assert.match(text, /^berth_database_up 0$/m);
  assert.match(text, /^berth_sftp_sessions 2$/m);
  assert.doesNotMatch(text, /^berth_(outbox|nodes|database_answer)\w*[ {]/m);
});

test('sshd, the disk of the jails, the room on the disks and the end of the certificate are seen', async () => {
  using place = scratch();
  await using running = await serving(place, 0);
  const scrape = async (port: number | undefined) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const value = async (name: string): Promise<number> => {
    const lines = (await scrape(running.server.port)).split('\n');
    return Number(lines.find((line) => line.startsWith(`${name} `))?.slice(name.length));
  };
  using other = scratch();
  await using down = await serving(other, 0, [], false);
  for (const name of ['berth_sshd_up', 'berth_jails_disk_up']) {
    assert.equal(await value('berth_backup_timestamp_seconds'), 1_795_000_000);
    assert.equal(await value(name), 1);
    assert.match(await scrape(down.server.port), new RegExp(`^${name} 0$`, 'm'));
  }

  for (const folder of ['jails', 'state']) {
    const ratio = await value(`berth_disk_free_ratio{folder="${folder}"}`);
    assert.ok(ratio > 0 && ratio < 1, String(ratio));
    assert.ok((await value(`berth_disk_free_bytes{folder="${folder}"}`)) > 0);
  }

  const end = 'berth_certificate_expiry_timestamp_seconds';
  assert.equal(await value(end), 0);
  const { pair } = await firstPair(place.config.tls, createLog('silent'));
  assert.equal(await value(end), Date.parse(new X509Certificate(pair?.cert ?? '').validTo) / 1000);
});

test('promtool finds nothing wrong', { skip: !promtool && 'no promtool here' }, async () => {
  using place = scratch();
  await using running = await serving(place, 0);
  const text = await (await fetch(`http://127.0.0.1:${running.server.port}/metrics`)).text();
  const metrics = spawnSync(promtool ?? '', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  assert.deepEqual([metrics.status, metrics.stderr], [0, '']);
  const rules = spawnSync(promtool ?? '', ['check', 'rules', fileURLToPath(RULES)]);
  assert.equal(rules.status, 0, String(rules.stderr));
});

test('only GET /metrics is served; a port that is taken is a line in the log, and off is off', async () => {
  using place = scratch();
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const lines: string[] = [];
  {
    await using running = await serving(place, port, lines);
    assert.equal(running.server.port, undefined);
  }
  taken.close();
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /no metrics: cannot listen on 127\.0\.0\.1:\d+ .*BERTH_METRICS_PORT/);
  {
    await using running = await serving(place, 'off');
    assert.equal(running.server.port, undefined);
  }
  await using running = await serving(place, 0);
  const status = async (path: string, method: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${running.server.port}${path}`, { method })).status;
  assert.deepEqual(
    [await status('/metrics', 'GET'), await status('/metrics', 'POST'), await status('/', 'GET')],
    [200, 405, 404],
  );
});

// Every alert fires when it should, and only then: `promtool test rules` plays metrics of two machines against
// alerts.yml.

/** Values of series by the minute, in promtool's notation: `0+5x10` begins with 0 and adds 5 ten times. */
type Series = Readonly<Record<string, string>>;

/** For how long there are values: longer than every alert waits, except for the one about backups. */
const MINUTES = 90;

/** A machine without a problem. Times are seconds since the test's beginning. */
function healthy(instance: string): Series {
  const series: Series = {
    up: '1x1500',
    berth_transfer_log_up: `1x${MINUTES}`,
    berth_outbox_oldest_seconds: `0x${MINUTES}`,
    'berth_webhook_attempts_total{outcome="delivered"}': `0+40x${MINUTES}`,
    'berth_webhook_attempts_total{outcome="retry"}': `0+40x${MINUTES}`,
    'berth_webhook_attempts_total{outcome="failed"}': `0+1x${MINUTES}`,
    berth_checking_oldest_seconds: `0x${MINUTES}`,
    'berth_checks_total{outcome="rejected"}': `7x${MINUTES}`,
    'berth_http_requests_total{method="GET",route="/healthz",status="200"}': `0+60x${MINUTES}`,
    'berth_event_loop_lag_seconds{percentile="99"}': `0.01x${MINUTES}`,
    berth_clock_lead_seconds: `3600x${MINUTES}`,
    berth_sshd_up: `1x${MINUTES}`,
    berth_jails_disk_up: `1x${MINUTES}`,
    'berth_disk_free_ratio{folder="jails"}': `0.05x${MINUTES}`, // of a disk so large that this is enough
    'berth_disk_free_bytes{folder="jails"}': `60000000000x${MINUTES}`,
    berth_certificate_expiry_timestamp_seconds: `8000000x${MINUTES}`,
    berth_certificate_refused: `0x${MINUTES}`,
    berth_backup_timestamp_seconds: `0+60x${MINUTES}`,
    berth_database_up: `1x${MINUTES}`,
    'berth_nodes{state="live"}': `2x${MINUTES}`,
    'berth_nodes{state="away"}': `0x${MINUTES}`,
  };
  const labelled = (name: string): string =>
    name.replace(
      /^(\w+)(?:\{(.*)\})?$/,
      (_, metric: string, labels = '') => `${metric}{job="berth",instance="${instance}"${labels && `,${labels}`}}`,
    );
  return Object.fromEntries(Object.entries(series).map(([name, values]) => [labelled(name), values]));
}

const HEALTHY = { ...healthy('a'), ...healthy('b') };

/** One series of the first machine. */
const on = (metric: string, labels = ''): string => `${metric}{job="berth",instance="a"${labels && `,${labels}`}}`;

/** What makes each alert fire, and by when. */
const CASES: Readonly<Record<string, { readonly at: string; readonly series: Series }>> = {
  BerthDown: { at: '3m', series: without(on('berth_'), { [on('up')]: '0x10' }) },
  BerthUploadsUnseen: { at: '3m', series: { [on('berth_transfer_log_up')]: '0x10' } },
  BerthWebhooksLate: { at: '6m', series: { [on('berth_outbox_oldest_seconds')]: '901x10' } },
  BerthWebhooksFailing: { at: '20m', series: { [on('berth_webhook_attempts_total', 'outcome="failed"')]: '0+4x30' } },
  BerthChecksWaiting: { at: '6m', series: { [on('berth_checking_oldest_seconds')]: '901x10' } },
  BerthUploadsRejected: { at: '5m', series: { [on('berth_checks_total', 'outcome="rejected"')]: '7 7 8x10' } },
  BerthApiErrors: {
    at: '10m',
    series: { [on('berth_http_requests_total', 'method="GET",route="/healthz",status="503"')]: '0+1x20' },
  },
  BerthEventLoopLag: { at: '11m', series: { [on('berth_event_loop_lag_seconds', 'percentile="99"')]: '0.3x20' } },
  BerthClockInDoubt: { at: '3m', series: { [on('berth_clock_lead_seconds')]: '-90000x10' } },
  BerthSshdDown: { at: '2m', series: { [on('berth_sshd_up')]: '0x10' } },
  BerthJailsDiskMissing: { at: '2m', series: { [on('berth_jails_disk_up')]: '0x10' } },
  BerthDiskNearlyFull: { at: '11m', series: { [on('berth_disk_free_bytes', 'folder="jails"')]: '50000000000x20' } },
  BerthCertificateEnds: { at: '61m', series: { [on('berth_certificate_expiry_timestamp_seconds')]: '1000000x70' } },
  BerthCertificateRefused: { at: '6m', series: { [on('berth_certificate_refused')]: '1x10' } },
  BerthBackupOld: { at: '24h', series: { [on('berth_backup_timestamp_seconds')]: `-172860x${24 * 60}` } },
  BerthDatabaseAway: { at: '2m', series: { [on('berth_database_up')]: '0x10' } },
  BerthNodeAway: { at: '3m', series: { [on('berth_nodes', 'state="away"')]: '1x10' } },
};

/** The series of both machines without those that begin so: a dead berth has no metrics. */
function without(beginning: string, series: Series): Series {
  const [metric = ''] = beginning.split('{');
  const gone = Object.keys(HEALTHY).filter((name) => name.startsWith(metric) && name.includes('instance="a"'));
  return { ...Object.fromEntries(gone.map((name) => [name, `_x${MINUTES}`])), ...series };
}

function scenario(name: string, at: string, series: Series, firing: readonly string[]): object {
  return {
    name,
    interval: '1m',
    input_series: Object.entries(series).map(([each, values]) => ({ series: each, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: at,
        exp_samples: firing.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
      },
    ],
  };
}

test(
  'each alert fires for its problem, no other does, and none while all is well',
  { skip: !promtool && 'no promtool here' },
  () => {
    using place = scratch();
    const alerts = [...readFileSync(fileURLToPath(RULES), 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
    assert.deepEqual(Object.keys(CASES), alerts);
    const file = join(place.dir, 'scenarios.yml');
    const tests = Object.entries(CASES).map(([alert, { at, series }]) =>
      scenario(alert, at, { ...HEALTHY, ...series }, [alert]),
    );
    // Neither of the metrics of another program nor without any job of that name is berth known to run.
    const foreign = { 'up{job="node",instance="a"}': '1x10' };
    const all = [
      scenario('all is well', '80m', HEALTHY, []),
      scenario('nothing is scraped under that job name', '3m', foreign, ['BerthDown']),
      ...tests,
    ];
    writeFileSync(file, JSON.stringify({ rule_files: [fileURLToPath(RULES)], evaluation_interval: '1m', tests: all }));
    const { status, stdout, stderr } = spawnSync(promtool ?? '', ['test', 'rules', file], { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
  },
);

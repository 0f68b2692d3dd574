/** Every alert fires when it should, and only then: `promtool test rules` plays metrics of two machines against alerts.yml. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promtool } from '../../support/promtool.ts';
import { scratch } from '../../support/scratch.ts';

const RULES = fileURLToPath(new URL('../../../packaging/monitoring/alerts.yml', import.meta.url));

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
    const alerts = [...readFileSync(RULES, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
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
    writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: all }));
    const { status, stdout, stderr } = spawnSync(promtool ?? '', ['test', 'rules', file], { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
  },
);

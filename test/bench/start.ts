/**
 * A start with 100,000 directories and 1,000,000 files: when the API answers, when everything is covered, and memory. What
 * each directory and each file costs follows from two starts more: one of an empty berth, one before there are files.
 */
import type { Config } from '../../src/foundation/base/config.ts';
import { issueKey } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { memoryOf, processorSeconds } from './berths.ts';
import { fill, fillFiles, tellSlowStatements } from './filled.ts';
import { type Bench, figure, percentile, short } from './harness.ts';
import { firstAccount, fixedConfig } from './served.ts';

export const start: Bench = {
  name: 'start',
  isOfThisProcess: true,
  async run(size) {
    const [directories, filesEach] = size === 'tiny' ? [20, 3] : [100_000, 10];
    using place = scratch({ BERTH_LOG_LEVEL: 'info' });
    const { config, environment } = await fixedConfig(place);
    const accountId = await firstAccount(config);
    const key = await issueKey(config);
    const empty = await memoryAfterStart(config, environment);
    await fill(config, accountId, { directories, filesEach: 0 });
    const withoutFiles = await memoryAfterStart(config, environment);
    await fillFiles(config, filesEach);
    tellSlowStatements(config);

    const began = performance.now();
    await using serve = await startServe(config, environment);
    const answered = (performance.now() - began) / 1000;
    const latencies: number[] = [];
    using api = clientOf(config, key);
    await until(
      'everything is covered',
      async () => {
        const asked = performance.now();
        await api.send('GET', '/directories?limit=1');
        latencies.push(performance.now() - asked);
        return serve.output().includes('every directory is watched or covered by scans');
      },
      600,
    );
    const covered = (performance.now() - began) / 1000;
    const busy = processorSeconds(serve.pid);
    const memory = memoryOf(serve.pid);
    const costs = `${cost(withoutFiles - empty, directories)} a directory, ${cost(memory - withoutFiles, directories * filesEach)} a file`;
    const what = `start with ${directories.toLocaleString('en')} directories and ${(directories * filesEach).toLocaleString('en')} files`;
    return [
      figure(`${what}: the API answers`, 's', { most: 3 }, [answered]),
      figure(
        '… everything is watched or covered',
        's',
        { most: 60 },
        [covered],
        `${short(busy)} s of processor time; meanwhile ${latency(latencies)}`,
      ),
      figure('… memory', 'MiB', { most: 700 }, [memory], `${short(empty)} MiB when empty; ${costs}`),
    ];
  },
};

/** Two starts differ by some MiB anyway, so a small difference means nothing. */
function cost(mebibytes: number, among: number): string {
  const bytes = (mebibytes * 2 ** 20) / among;
  return bytes < 10 ? 'nothing measurable' : `${short(bytes)} bytes`;
}

function latency(values: readonly number[]): string {
  return `a GET took ${short(percentile(values, 0.5))} ms, p99 ${short(percentile(values, 0.99))} ms`;
}

/** berth's memory once everything is covered. */
async function memoryAfterStart(config: Config, environment: Record<string, string>): Promise<number> {
  await using serve = await startServe(config, environment);
  const isCovered = (): boolean => serve.output().includes('every directory is watched or covered by scans');
  await until('everything is covered', isCovered, 600);
  return memoryOf(serve.pid);
}

/** A start with 100,000 directories and 1,000,000 files: when the API answers, when everything is covered, and memory. */
import { issueKey } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { residentMemory } from './child.ts';
import { fill } from './filled.ts';
import { type Bench, boundFigure, percentile, short } from './harness.ts';
import { firstAccount, fixedConfig } from './served.ts';

export const start: Bench = {
  name: 'start',
  async run(size) {
    const [directories, filesEach] = size === 'tiny' ? [20, 3] : [100_000, 10];
    using place = scratch({ BERTH_LOG_LEVEL: 'info' });
    const { config, environment } = await fixedConfig(place);
    const empty = await emptyMemory();
    const accountId = await firstAccount(config);
    const key = await issueKey(config);
    await fill(config, accountId, { directories, filesEach });

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
        return serve.output().includes('every directory has been looked at');
      },
      600,
    );
    const covered = (performance.now() - began) / 1000;
    const memory = residentMemory(serve.pid);
    const each = ((memory - empty) * 2 ** 20) / directories;
    const what = `start with ${directories.toLocaleString('en')} directories and ${(directories * filesEach).toLocaleString('en')} files`;
    return [
      boundFigure(`${what}: the API answers`, 3, [answered], 's'),
      boundFigure('… everything is watched or covered', 60, [covered], 's', `meanwhile ${latency(latencies)}`),
      boundFigure('… memory', 700, [memory], 'MiB', `${short(empty)} MiB when empty; ${short(each)} bytes a directory`),
    ];
  },
};

function latency(values: readonly number[]): string {
  return `a GET took ${short(percentile(values, 0.5))} ms, p99 ${short(percentile(values, 0.99))} ms`;
}

/** What berth takes with nothing to do. */
async function emptyMemory(): Promise<number> {
  using place = scratch({ BERTH_LOG_LEVEL: 'info' });
  const { config, environment } = await fixedConfig(place);
  await using serve = await startServe(config, environment);
  await until('the start is over', () => serve.output().includes('every directory has been looked at'));
  return residentMemory(serve.pid);
}

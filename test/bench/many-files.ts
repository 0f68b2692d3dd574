/** One directory with 100 files and one with 100,000. */
import { type FilledBerth, filledBerth, timedInTurns } from './filled-berth.ts';
import { type Bench, growthFigure, median } from './harness.ts';

interface Filled {
  readonly berth: FilledBerth;
  readonly files: number;
  readonly path: string;
}

export const manyFiles: Bench = {
  name: 'many-files',
  isOfThisProcess: true,
  async run(size) {
    const [rounds, count, few, some, many] = size === 'tiny' ? [1, 2, 3, 4, 6] : [7, 30, 100, 10_000, 100_000];
    await using parts = new AsyncDisposableStack();
    const filled = async (files: number): Promise<Filled> => {
      const berth = parts.use(await filledBerth({ directories: 1, filesEach: files }));
      return { berth, files, path: await directoryPath(berth) };
    };
    const large = await filled(many);
    const small = await filled(few);
    const medium = await filled(some);
    const timesOf = async (query: string, calls: number, less: Filled) => {
      const call = (of: Filled) => (i: number) => of.berth.api.send('GET', `${of.path}${query}again=${i}`);
      const times: { large: number[]; small: number[] } = { large: [], small: [] };
      for (let round = 0; round < rounds; round += 1) {
        const taken = await timedInTurns(calls, call(large), call(less));
        times.large.push(median(taken.large));
        times.small.push(median(taken.small));
      }
      return times;
    };
    const name = (what: string, less: Filled): string =>
      `${what}, ${less.files.toLocaleString('en')} → ${many.toLocaleString('en')} files`;
    // With 100 rows the time is that of any request, and would not show the cost of rows.
    const whole = await timesOf('/uploads?', 2, medium);
    const perRow = { large: whole.large.map((time) => (time * some) / many), small: whole.small };
    const page = await timesOf('/uploads?limit=100&', count, small);
    const storage = await timesOf('?', count, small);
    return [
      growthFigure(name(`whole uploads list, time for ${some.toLocaleString('en')} rows`, medium), 1.25, perRow),
      growthFigure(name('uploads list, ?limit=100', small), 1.25, page),
      growthFigure(name('storage_bytes', small), 1.1, storage),
    ];
  },
};

async function directoryPath({ api }: FilledBerth): Promise<string> {
  const { json } = await api.send('GET', '/directories');
  return `/directories/${(json as { data: { id: string }[] }).data[0]?.id}`;
}

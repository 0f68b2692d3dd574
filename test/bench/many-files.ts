/** One directory with 100 files and one with 100,000. */
import { type FilledBerth, filledBerth } from './filled-berth.ts';
import { type Bench, type Figure, growthFigure, inTurns, median } from './harness.ts';

export const manyFiles: Bench = {
  name: 'many-files',
  async run(size) {
    const [rounds, count, few, many] = size === 'tiny' ? [1, 2, 3, 6] : [7, 30, 100, 100_000];
    await using small = await filledBerth({ directories: 1, filesEach: few });
    await using large = await filledBerth({ directories: 1, filesEach: many });
    const path = await directoryPath(small);
    const paths = new Map([
      [small, path],
      [large, await directoryPath(large)],
    ]);
    const figure = async (
      what: string,
      most: number,
      calls: number,
      query: string,
      perRow = false,
    ): Promise<Figure> => {
      const run = (berth: FilledBerth, rows: number) => async (): Promise<number> => {
        const times = await berth.timed(calls, (i) => berth.api.send('GET', `${paths.get(berth)}${query}${i}`));
        return perRow ? (median(times) * few) / rows : median(times);
      };
      const { ours, theirs } = await inTurns(rounds, run(large, many), run(small, few));
      const name = `${what}, ${few} → ${many.toLocaleString('en')} files`;
      return growthFigure(name, most, { large: ours, small: theirs });
    };
    return [
      await figure('whole uploads list, time for 100 rows', 1.25, 2, '/uploads?again=', true),
      await figure('uploads list, ?limit=100', 1.25, count, '/uploads?limit=100&again='),
      await figure('storage_bytes', 1.1, count, '?again='),
    ];
  },
};

async function directoryPath({ api }: FilledBerth): Promise<string> {
  const { json } = await api.send('GET', '/directories');
  return `/directories/${(json as { data: { id: string }[] }).data[0]?.id}`;
}

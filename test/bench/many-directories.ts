/** What customers do, with 100 directories and with 100,000. */
import { connect } from '../support/sftp-client.ts';
import { type FilledBerth, filledBerth } from './filled-berth.ts';
import { type Bench, growthFigure, inTurns, median } from './harness.ts';
import type { ServedDirectory } from './served.ts';

/** Median milliseconds of each. */
type Times = Record<'create' | 'GET' | 'PATCH' | 'login' | 'first page of the list' | 'delete', number>;

export const manyDirectories: Bench = {
  name: 'many-directories',
  async run(size) {
    const [rounds, count, few, many] = size === 'tiny' ? [1, 2, 3, 6] : [7, 15, 100, 100_000];
    await using small = await filledBerth({ directories: few, filesEach: 0 });
    await using large = await filledBerth({ directories: many, filesEach: 0 });
    if (size === 'full') for (const berth of [small, large]) await once(berth, count);
    const { ours, theirs } = await inTurns(
      rounds,
      () => once(large, count),
      () => once(small, count),
    );
    const names = Object.keys(ours[0] ?? {}) as (keyof Times)[];
    return names.map((name) =>
      growthFigure(`${name}, ${few} → ${many.toLocaleString('en')} directories`, 1.25, {
        large: ours.map((times) => times[name]),
        small: theirs.map((times) => times[name]),
      }),
    );
  },
};

async function once(berth: FilledBerth, count: number): Promise<Times> {
  const { api, sftpPort: port } = berth;
  const made: ServedDirectory[] = [];
  const at = (i: number): ServedDirectory => made[i] ?? { id: '', sftp_username: '', sftp_password: '' };
  const timed = async (call: (index: number) => Promise<unknown>): Promise<number> =>
    median(await berth.timed(count, call));
  return {
    create: await timed(async () => {
      const { json } = await api.send('POST', '/directories', { json: { directory: { name: 'Bench' } } });
      made.push((json as { data: ServedDirectory }).data);
    }),
    GET: await timed((i) => api.send('GET', `/directories/${at(i).id}`)),
    PATCH: await timed((i) =>
      api.send('PATCH', `/directories/${at(i).id}`, { json: { directory: { description: `round ${i}` } } }),
    ),
    login: await timed(async (i) => {
      const { sftp_username: username, sftp_password: password } = at(i);
      await using connection = await connect({ port, username, password });
      await connection.sftp();
    }),
    'first page of the list': await timed((i) => api.send('GET', `/directories?limit=${100 + i}`)),
    delete: await timed((i) => api.send('DELETE', `/directories/${at(i).id}`)),
  };
}

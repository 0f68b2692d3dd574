/** What customers do, with 100 directories and with 100,000. */
import { connect } from '../support/sftp-client.ts';
import { type FilledBerth, filledBerth, timedInTurns } from './filled-berth.ts';
import { type Bench, growthFigure, median } from './harness.ts';
import type { ServedDirectory } from './served.ts';

const OPERATIONS = ['create', 'GET', 'PATCH', 'login', 'first page of the list', 'delete'] as const;

type Operations = Record<(typeof OPERATIONS)[number], (index: number) => Promise<unknown>>;

export const manyDirectories: Bench = {
  name: 'many-directories',
  isOfThisProcess: true,
  async run(size) {
    const [rounds, count, few, many] = size === 'tiny' ? [1, 2, 3, 6] : [7, 15, 100, 100_000];
    await using small = await filledBerth({ directories: few, filesEach: 0 });
    await using large = await filledBerth({ directories: many, filesEach: 0 });
    if (size === 'full') await once(large, small, count);
    const results: Awaited<ReturnType<typeof once>>[] = [];
    for (let round = 0; round < rounds; round += 1) results.push(await once(large, small, count));
    return OPERATIONS.map((name) =>
      growthFigure(`${name}, ${few} → ${many.toLocaleString('en')} directories`, 1.25, {
        large: results.map((result) => result[name].large),
        small: results.map((result) => result[name].small),
      }),
    );
  },
};

/** Median milliseconds of each operation. */
async function once(large: FilledBerth, small: FilledBerth, count: number) {
  const operations = [operationsOf(large), operationsOf(small)] as const;
  const timed = async (name: keyof Operations): Promise<{ large: number; small: number }> => {
    const times = await timedInTurns(count, operations[0][name], operations[1][name]);
    return { large: median(times.large), small: median(times.small) };
  };
  return {
    create: await timed('create'),
    GET: await timed('GET'),
    PATCH: await timed('PATCH'),
    login: await timed('login'),
    'first page of the list': await timed('first page of the list'),
    delete: await timed('delete'),
  };
}

/** The operations, in an order in which the first creates directories and the last removes them. */
function operationsOf({ api, sftpPort: port }: FilledBerth): Operations {
  const made: ServedDirectory[] = [];
  const at = (i: number): ServedDirectory => made[i] ?? { id: '', sftp_username: '', sftp_password: '' };
  return {
    async create() {
      const { json } = await api.send('POST', '/directories', { json: { directory: { name: 'Bench' } } });
      made.push((json as { data: ServedDirectory }).data);
    },
    GET: (i) => api.send('GET', `/directories/${at(i).id}`),
    PATCH: (i) => api.send('PATCH', `/directories/${at(i).id}`, { json: { directory: { description: `round ${i}` } } }),
    async login(i) {
      const { sftp_username: username, sftp_password: password } = at(i);
      await using connection = await connect({ port, username, password });
      await connection.sftp();
    },
    // Never the same request twice, because something may cache its answer.
    'first page of the list': (i) => api.send('GET', `/directories?limit=${100 + i}`),
    delete: (i) => api.send('DELETE', `/directories/${at(i).id}`),
  };
}

/** Plays many stories, each in a directory of its own of one database. */
import { openDatabase } from '../../src/foundation/db/open.ts';
import { JailQueries } from '../../src/arrivals/uploads/jails.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { scratch } from '../support/scratch.ts';
import { randomOf } from './random.ts';
import { playStory, type Story } from './world.ts';

/** How many failures are shown with their traces. */
const SHOWN = Number(process.env['FAILURES'] ?? 1);

interface Stories {
  readonly first: number;
  readonly count: number;
  storyOf(seed: number): Story;
}

/** @returns how many have failed. */
export async function playStories({ first, count, storyOf }: Stories): Promise<number> {
  using place = scratch();
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: count, filesEach: 0 });
  const database = await openDatabase(config.database);
  await using parts = new AsyncDisposableStack();
  parts.defer(() => database.close());
  const jails = await new JailQueries(database.reads, config.node).after('', count);
  let failures = 0;
  for (const [index, jail] of jails.entries()) {
    const seed = first + index;
    const faults = await playStory(storyOf(seed), database, jail, randomOf(seed ^ 0x5bd1e995));
    if (faults.length === 0) continue;
    failures += 1;
    console.log(`STORIES=1 SEED=${seed}\n${(failures <= SHOWN ? faults : faults.slice(0, 1)).join('\n')}`);
  }
  return failures;
}

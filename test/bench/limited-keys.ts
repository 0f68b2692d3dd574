/** A page of the feed for keys that are limited to one directory and to a hundred, in an account with 1,000 directories. */
import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { eventsAfter, insertEvents } from '../../src/rules/history/events.ts';
import { scratch } from '../support/scratch.ts';
import { timedInTurns } from './filled-berth.ts';
import { type Bench, growthFigure, median } from './harness.ts';

const LIMIT = 1000;
const DIRECTORIES_OF_A_KEY = 100;

export const limitedKeys: Bench = {
  name: 'limited-keys',
  isOfThisProcess: true,
  async run(size) {
    const [rounds, directories, eventsEach] = size === 'tiny' ? [1, 200, 2] : [7, 1000, 1100];
    using place = scratch();
    mkdirSync(place.config.stateDir, { recursive: true });
    const database = await openDatabase(place.config.database);
    try {
      const { account, ids } = await filled(database, directories, eventsEach);
      const page = (count: number) => () =>
        eventsAfter(database, account, { after: 0, limit: LIMIT, only: new Set(ids.slice(0, count)) });
      await read(database, account);
      const times: { large: number[]; small: number[] } = { large: [], small: [] };
      for (let round = 0; round < rounds; round += 1) {
        const taken = await timedInTurns(10, page(DIRECTORIES_OF_A_KEY), page(1));
        times.large.push(median(taken.large));
        times.small.push(median(taken.small));
      }
      const what = `a page of ${LIMIT} events, key of 1 → ${DIRECTORIES_OF_A_KEY} directories of ${directories}`;
      return [growthFigure(what, 3, times)];
    } finally {
      await database.close();
    }
  },
};

/** Somebody has read the whole feed, so all events are numbered. */
async function read(database: Database, account: string): Promise<void> {
  let after = 0;
  for (let last: number | undefined = 0; last !== undefined; after = last ?? after) {
    last = (await eventsAfter(database, account, { after, limit: LIMIT })).at(-1)?.sequence;
  }
}

/** An account whose directories take turns in having events. */
async function filled({ db }: Database, directories: number, eventsEach: number) {
  const account = randomUUID();
  await db.insertInto('accounts').values({ id: account, name: 'Bench', plan: 'business', inserted_at: 0 }).execute();
  const ids = Array.from({ length: directories }, () => randomUUID());
  const body = JSON.stringify({ event: 'file.uploaded', filename: 'f'.repeat(300) });
  for (let round = 0; round < eventsEach; round += 1) {
    const events = ids.map((directory_id) => {
      return { account_id: account, at: 0, event: 'file.uploaded' as const, directory_id, upload_id: null, body };
    });
    await db.transaction().execute((tx) => insertEvents(tx, events));
  }
  return { account, ids };
}

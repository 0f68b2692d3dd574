/**
 * The time and size of a page of the list of directories. The suite has few directories and checks only the size; with
 * `DIRECTORIES=100000` before the command, this shows how the times grow.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startBerth } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf } from '../support/directory-page.ts';
import { directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { percentile } from '../support/percentile.ts';
import { scratch } from '../support/scratch.ts';

const COUNT = Number(process.env['DIRECTORIES'] ?? 300);
const ROUNDS = 15;
const WEIGHT = 60_000;
const TIME = 50;

const LIST = '/dashboard/directories';
const WORDS = ['Acme', 'Globex', 'Initech', 'Umbrella', 'Hooli', 'Stark', 'Wayne', 'Wonka', 'Müller', 'Tyrell'];
const word = (n: number): string => WORDS[n % WORDS.length] ?? '';

/** Each kind with a search that many entries match, and one that has to look at all of them. */
const PAGES: Readonly<Record<string, string>> = {
  'first page': LIST,
  'by name': `${LIST}?sort=name`,
  'by storage': `${LIST}?sort=storage`,
  'by last upload': `${LIST}?sort=upload`,
  'search, many found': `${LIST}?q=acme`,
  'search, many found, by storage': `${LIST}?q=acme&sort=storage`,
  'search, one found': `${LIST}?q=order-7-`,
  'search, none found': `${LIST}?q=nobody`,
  'search by two letters, none found': `${LIST}?q=qq`,
  'search by what many have, but not in this order': `${LIST}?q=${encodeURIComponent('of-a-customer')}`,
  'search by other letters, none found': `${LIST}?q=${encodeURIComponent('Größe')}`,
  'page in the middle': `${LIST}?sort=name&after=${Buffer.from('["m","x"]').toString('base64url')}`,
};

test('a page of the list weighs at most 60 KB', { timeout: 600_000 }, async (t) => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const database = await openDatabase(berth.config.database);
  const [many, few] = [await newAccount(database.db), await newAccount(database.db)];
  const rows = (count: number, prefix: string) =>
    Array.from({ length: count }, (_, n) =>
      directoryRow({
        name: `${word(n)} ${word(Math.floor(n / 10))} ${n}`,
        sftp_username: `${prefix}-a-customer-of-${n}`,
        external_id: `order-${n}-${prefix}`,
        storage_bytes: (n * 7919) % 1e9,
        inserted_at: 1_795_000_000_000_000 + n,
        last_upload_at: 1_795_000_000_000_000 + ((n * 104_729) % 1e9),
      }),
    );
  await insertDirectories(database.db, many, rows(COUNT, 'm'));
  await insertDirectories(database.db, few, rows(100, 'f'));
  await database.close();
  using large = await signedIn(dashboardOf(berth), many);
  using small = await signedIn(dashboardOf(berth), few);
  for (const [name, path] of Object.entries(PAGES)) {
    const times: Record<'large' | 'small', number[]> = { large: [], small: [] };
    const spent: number[] = [];
    let weight = 0;
    for (let round = 0; round < ROUNDS; round += 1)
      for (const [side, visitor] of [
        ['large', large],
        ['small', small],
      ] as const) {
        const [began, before] = [performance.now(), process.cpuUsage()];
        const page = await visitor.get(path);
        times[side].push(performance.now() - began);
        const { user, system } = process.cpuUsage(before);
        if (side === 'large') spent.push((user + system) / 1000);
        assert.equal(page.status, 200);
        weight = Math.max(weight, Buffer.byteLength(page.text));
      }
    const [took, beside, cpu] = [times.large, times.small, spent].map((each) => percentile(each, 0.5).toFixed(1));
    t.diagnostic(`${name}: ${took} ms of ${COUNT}, ${beside} ms of 100; ${cpu} ms of CPU; ${weight} bytes`);
    assert.ok(weight <= WEIGHT, `${name}: ${weight} bytes`);
    // The time includes the client's.
    if (COUNT >= 100_000)
      assert.ok(Math.max(Number(took), Number(cpu)) <= TIME, `${name}: ${took} ms, ${cpu} ms of CPU`);
  }
});

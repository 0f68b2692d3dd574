/**
 * `POST /directories`, four requests at a time, each answered when the login works, beside the least that this could
 * cost: an fsync'd insert, a folder with its owner, and two files renamed into place, in a loop.
 */
import { chownSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import { connect } from '../support/sftp-client.ts';
import { scratch } from '../support/scratch.ts';
import { type Bench, boundFigure, inTurns, percentile, rateFigure, short } from './harness.ts';
import { type ServedDirectory, serveBerth } from './served.ts';

const AT_A_TIME = 4;
/** Creates of a round. Between rounds a pause, as customers leave between theirs: it refills the stock of hashes. */
const COUNT = 300;
const PAUSE = 2000;

export const create: Bench = {
  name: 'create',
  async run(size) {
    const [rounds, count, pause] = size === 'tiny' ? [1, 10, 0] : [5, COUNT, PAUSE];
    using place = scratch();
    await using berth = await serveBerth(place, { sftp: true });
    using floor = openFloor(join(place.dir, 'floor'));
    const latencies: number[] = [];
    let last: ServedDirectory | undefined;

    const ours = async (): Promise<number> => {
      let left = count;
      const began = performance.now();
      await Promise.all(
        Array.from({ length: AT_A_TIME }, async () => {
          while (left-- > 0) {
            const started = performance.now();
            last = await berth.directory();
            latencies.push(performance.now() - started);
          }
        }),
      );
      const rate = (count * 1000) / (performance.now() - began);
      await logIn(berth.config.sftp.port, last);
      await wait(pause);
      return rate;
    };
    const theirs = async (): Promise<number> => {
      const began = performance.now();
      for (let i = 0; i < count; i += 1) floor.step();
      return (count * 1000) / (performance.now() - began);
    };
    if (size === 'full') await ours(); // the code is compiled, the stock is there
    latencies.length = 0;
    const what = 'POST /directories until the login works, beside insert + mkdir + chown + 2 renames';
    return [
      rateFigure(what, 0.4, await inTurns(rounds, ours, theirs), 'creates/s'),
      boundFigure('… p99', 20, [percentile(latencies, 0.99)], 'ms', `p50 ${short(percentile(latencies, 0.5))} ms`),
    ];
  },
};

async function logIn(port: number, directory: ServedDirectory | undefined): Promise<void> {
  if (!directory) throw new Error('nothing was created');
  await using connection = await connect({
    port,
    username: directory.sftp_username,
    password: directory.sftp_password,
  });
  await connection.sftp();
}

function openFloor(folder: string): Disposable & { step(): void } {
  mkdirSync(folder);
  const sqlite = new Sqlite(join(folder, 'floor.db'));
  sqlite.pragma('journal_mode = wal');
  sqlite.pragma('synchronous = full');
  sqlite.exec('create table directories (id integer primary key, name text)');
  const insert = sqlite.prepare('insert into directories (name) values (?)');
  return {
    step() {
      const { lastInsertRowid } = insert.run('a directory of the floor');
      const jail = join(folder, `jail-${lastInsertRowid}`);
      mkdirSync(jail);
      chownSync(jail, 65_534, 65_534);
      for (const name of ['user', 'limit']) {
        writeFileSync(`${jail}.new`, name);
        renameSync(`${jail}.new`, `${jail}.${name}`);
      }
    },
    [Symbol.dispose]: () => void sqlite.close(),
  };
}

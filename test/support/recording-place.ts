/** A directory on a database and a folder, whose log the test speaks: what `recording.ts` makes of it can be read. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import { createAccount } from '../../src/accounts/accounts.ts';
import { SECOND } from '../../src/clock.ts';
import { openDatabase } from '../../src/db/open.ts';
import { movedClock } from './moved-clock.ts';
import { until } from './poll.ts';
import { recording, type RecordingOptions } from './recording.ts';
import { scratch } from './scratch.ts';

const DIRECTORY = { id: 'd', sftp_username: 'u' };

export interface RecordingPlaceOptions extends Pick<RecordingOptions, 'isTemporary' | 'isHeld' | 'isAlive'> {
  /** How wrong the clock is. */
  readonly hoursAhead?: number;
}

/** Longer than a file has to rest, and a session to be asked about, in ms. */
const LONG = 6000;

/** @returns besides, the folder `files`, and what was announced and recorded, as short texts. */
export async function recordingPlace(options: RecordingPlaceOptions = {}) {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const files = join(place.dir, 'files');
  mkdirSync(files);
  mkdirSync(place.config.stateDir, { recursive: true });
  const database = await openDatabase(place.config.databaseFile);
  parts.defer(() => database.close());
  const clock = movedClock();
  clock.offset = (options.hoursAhead ?? 0) * 3600 * SECOND;
  const { id: account } = await createAccount({ database, clock }, { name: 'T', plan: 'business' });
  const sqlite = new Sqlite(place.config.databaseFile);
  sqlite.exec("insert into principals (uid, username) values (70000, 'u')");
  sqlite
    .prepare(
      `insert into directories (id, account_id, name, slug, metadata, sftp_host, sftp_port, sftp_username, uid,
        password_hash, webhook_url, webhook_secret, max_connections, retention_days, auth_mode, inserted_at, updated_at)
      values ('d', ?, 'D', 'd', '{}', '127.0.0.1', 22, 'u', 70000, '*', 'https://hooks.example.com/', 'secret', 10, 0,
        'password', 0, 0)`,
    )
    .run(account);
  sqlite.close();
  const parting = parts.use(recording({ ...options, clock, database, filesRoot: () => files }));
  const owned = parts.move();

  /** `a 5`: a webhook for `a` with 5 bytes, in the order of their uploads. */
  async function announced(): Promise<string[]> {
    const all = await database.db.selectFrom('deliveries').select('body').orderBy('inserted_at').execute();
    return all.map(({ body }) => {
      const { filename, size_bytes } = JSON.parse(body.toString()) as Record<string, unknown>;
      return `${String(filename)} ${String(size_bytes)}`;
    });
  }

  /** `a 5 uploaded`: a row, in the order of their paths. */
  async function rows(): Promise<string[]> {
    const all = await database.db.selectFrom('files').selectAll().orderBy('path').execute();
    return all.map(({ path, size_bytes, state }) => `${path.toString()} ${size_bytes} ${state}`);
  }

  return {
    files,
    /** When all that was told has been looked at. */
    async comesTo(webhooks: string[], recorded: string[]): Promise<void> {
      await parting.recorder.drained();
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    /** sshd says something of session `pid`. */
    told: (pid: number, ...texts: string[]): void => parting.say(DIRECTORY, pid, ...texts),
    /** The process has gone. */
    gone: (pid: number): void => parting.interpreter.end(pid, clock.now()),
    touch: (path: string): void => parting.ledger.touch(DIRECTORY, path, 0),
    /** It comes to that in the end, and stays so. */
    async settles(webhooks: string[], recorded: string[]): Promise<void> {
      await until('all is recorded', async () => (await rows()).length === recorded.length, LONG / 1000);
      await wait(100);
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    /** Nothing more comes of it. */
    async stays(webhooks: string[], recorded: string[]): Promise<void> {
      await wait(LONG);
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

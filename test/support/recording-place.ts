/** A directory on a database and a folder, whose log the test speaks: what `recording.ts` makes of it can be read. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Micros, SECOND } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { jailFiles } from '../../src/arrivals/uploads/file-path.ts';
import { JailQueries } from '../../src/arrivals/uploads/jails.ts';
import type { Observation } from '../../src/arrivals/uploads/log/journal-record.ts';
import { readEvent } from '../../src/arrivals/uploads/log/log-line.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { movedClock } from './moved-clock.ts';
import { until } from './poll.ts';
import { recording, type RecordingOptions } from './recording.ts';
import { scratch } from './scratch.ts';

export interface RecordingPlaceOptions extends Pick<
  RecordingOptions,
  'syncer' | 'isTemporary' | 'isHeld' | 'heldBy' | 'isDead' | 'lag' | 'beforeCommit' | 'committed'
> {
  /** How wrong the clock is. */
  readonly hoursAhead?: number;
}

/** As the log says that a client opens a file to upload it. */
export const WRITE = 'flags WRITE,CREATE,TRUNCATE mode 0644';

/** Longer than a file has to be stable, and a session to be asked about, in ms. */
const LONG = 6000;

/**
 * A monotonic clock that stands still while this thread is at work, in ms. Otherwise a busy machine, which takes the processor away from a
 * turn of the recorder, would divide what it does in one transaction.
 */
function standingClock(): () => number {
  let now: number | undefined;
  return () => {
    if (now === undefined) setImmediate(() => (now = undefined));
    return (now ??= performance.now());
  };
}

/** @returns also the folder `files`, and the announcements and records, as short texts. */
export async function recordingPlace(options: RecordingPlaceOptions = {}) {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const { config } = place;
  await fill(config, await firstAccount(config), { directories: 1, filesEach: 0 });
  const database = await openDatabase(config.database);
  parts.defer(() => database.close());
  await database.db.updateTable('directories').set({ webhook_url: 'https://hooks.example.com/' }).execute();
  const [jail] = await new JailQueries(database.reads, config.node).after('', 1);
  assert.ok(jail);
  const filesRoot = jailFiles(config.jailDir);
  const clock = movedClock();
  clock.offset = (options.hoursAhead ?? 0) * 3600 * SECOND;
  const parting = parts.use(
    recording({ ...options, clock, monotonic: standingClock(), database, node: config.node, filesRoot }),
  );
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

  /** Waits for that value, and shows the actual one if it does not come in time. */
  async function comes(webhooks: string[], recorded: string[]): Promise<void> {
    const isSo = async () => isDeepStrictEqual([await announced(), await rows()], [webhooks, recorded]);
    await until('all is recorded', isSo).catch(async () =>
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]),
    );
  }

  return {
    files: filesRoot(jail.sftp_username),
    jail,
    config,
    parting,
    database,
    db: database.db,
    announced,
    rows,
    comes,
    /** When all lines so far have been looked at. */
    async comesTo(webhooks: string[], recorded: string[]): Promise<void> {
      await parting.drained();
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    /** sshd says something of session `pid`. */
    logged: (pid: number, ...texts: string[]): void => parting.say(jail, pid, ...texts),
    /** The process has gone. */
    gone: (pid: number): void => parting.gone(jail, pid),
    /** A line of session 1 was read at `time`, when the files that it names were as in `seen`. The disk may show others by now. */
    wasLogged(text: string, time: Micros, seen?: readonly (Observation | null)[]): void {
      parting.recorder.add(jail, { pid: 1, event: readEvent(text), at: time, seen, isFresh: false });
    },
    write: (path: string, data: string): void => writeFileSync(join(filesRoot(jail.sftp_username), path), data),
    touch: (path: string): void => parting.recorder.look(jail, path, 0),
    /** It comes to that in the end, and stays so. */
    async settles(webhooks: string[], recorded: string[]): Promise<void> {
      await comes(webhooks, recorded);
      await wait(100);
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    /** Nothing more comes of it. */
    async stays(webhooks: string[], recorded: string[]): Promise<void> {
      await comes(webhooks, recorded);
      await wait(LONG);
      assert.deepEqual([await announced(), await rows()], [webhooks, recorded]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Like `recordingPlace`, with an action that runs during the next commit. */
export async function committingPlace(options: Omit<RecordingPlaceOptions, 'beforeCommit'> = {}) {
  let action: (() => void) | undefined;
  const place = await recordingPlace({
    ...options,
    beforeCommit() {
      action?.();
      action = undefined;
    },
  });
  return { ...place, duringCommit: (next: () => void): void => void (action = next) };
}

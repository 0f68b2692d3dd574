/** Following sshd's log: each login has one row and is counted once, whatever the log contains and however it ends. */
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DAY, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { refusalsByDay } from '../../src/rules/history/daily-totals.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { activityPage } from '../../src/operating/reports/activity.ts';
import { journal } from '../../src/operating/reports/journal.ts';
import { followLogins } from '../../src/operating/reports/login-log.ts';
import { type Hosted, hosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { onPostgres } from '../support/postgres.ts';
import { plansOf } from '../support/query-plan.ts';
import { scratch, type Scratch } from '../support/scratch.ts';
import { createGround } from '../../src/foundation/context.ts';

const PATH = process.env['PATH'];
const clock = systemClock();

interface Entry {
  readonly at: number;
  readonly pid: number;
  readonly message: string;
}

/** A `journalctl` that prints these entries and waits for more when it is asked to, and notes what it was asked. */
function madeJournal(place: Scratch) {
  const folder = join(place.dir, 'bin');
  mkdirSync(folder);
  const [entries, asked, pid] = ['entries', 'asked', 'pid'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(entries, '');
  writeFileSync(asked, '');
  const script = `echo "$*" >>${asked}\ncase "$*" in *--follow*) echo $$ >${pid}; exec tail -n +1 -f ${entries};; esac\ncat ${entries}`;
  writeFileSync(join(folder, 'journalctl'), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, 'journalctl'), 0o755);
  process.env['PATH'] = `${folder}:${PATH}`;
  return {
    write: (lines: readonly Entry[]): void =>
      appendFileSync(
        entries,
        lines
          .map(
            ({ at, pid: of, message }) =>
              `${JSON.stringify({ MESSAGE: message, _PID: String(of), __REALTIME_TIMESTAMP: String(at) })}\n`,
          )
          .join(''),
      ),
    asked: () => readFileSync(asked, 'utf8').split('\n').slice(0, -1),
    isFollowed: () => existsSync(pid) && existsSync(`/proc/${readFileSync(pid, 'utf8').trim()}`),
    [Symbol.dispose]: () => void (process.env['PATH'] = PATH),
  };
}

const follow = ({ rules, database }: Hosted) =>
  followLogins(createGround({ config: rules.config, database, clock, log: createLog('silent') }), journal);

const wrong = (user: string, at: number, pid: number, port = pid): Entry => ({
  at,
  pid,
  message: `Failed password for ${user} from 192.0.2.1 port ${port} ssh2`,
});

const rowsOf = async ({ database }: Hosted) =>
  (await database.reads.selectFrom('logins').select(['kind', 'address', 'text']).orderBy('id').execute()).map(
    ({ kind, address, text }) => `${kind} ${address} ${text}`,
  );

const refusedBy = async (api: Hosted, days = 2) =>
  (await refusalsByDay(api.database.reads, api.tenant.accountId, { now: clock.now(), days })).byDay;

test('attempts become rows once they are over, are counted by day, and a restart repeats and misses none', async () => {
  using place = scratch();
  await using api = await hosted(place);
  using log = madeJournal(place);
  const { id, sftp_username: user } = await api.directory();
  const now = clock.now();
  const ago = now - 600 * SECOND;
  /** The time of an attempt that is not over yet, which takes a minute. */
  const newest = now - 30 * SECOND;
  log.write([
    wrong(user, ago, 100),
    { at: ago + 1, pid: 100, message: `Failed password for ${user} from 192.0.2.1 port 100 ssh2` },
    { at: ago + 2, pid: 101, message: `Accepted password for ${user} from 192.0.2.2 port 101 ssh2` },
    { at: ago + 3, pid: 102, message: `Failed password for ${user} from 192.0.2.3 port 102 ssh2` },
    { at: ago + 4, pid: 102, message: `Access denied for user ${user} by PAM account configuration [preauth]` },
    { at: ago + 5, pid: 103, message: `Login of ${user} from 192.0.2.3 refused: suspended` },
    // Names in lines that a client forged: with another client's address, and of no user.
    { at: ago + 6, pid: 104, message: 'Failed password for invalid user x from 192.0.2.4 port 104 ssh2' },
    wrong(user, ago + 7, 104, 999),
    wrong('nobody-here', ago + 8, 105),
    wrong(user, newest, 106),
  ]);
  const { database } = api;
  const known = () => refusalsByDay(database.reads, api.tenant.accountId, { now, days: 1 });
  assert.equal((await known()).knownUntil, undefined);
  const first = follow(api);
  await until('rows are written', async () => (await rowsOf(api)).length > 0);
  const rows = [
    'refused 192.0.2.1 wrong password',
    'refused 192.0.2.1 wrong password',
    'login 192.0.2.2 by password',
    'refused 192.0.2.3 right password, but suspended',
  ];
  assert.deepEqual(await rowsOf(api), rows);
  assert.equal(
    (await refusedBy(api)).reduce((a, b) => a + b),
    3,
  );
  assert.ok(((await known()).knownUntil ?? 0) > ago);
  assert.deepEqual(first.unwritten(user), [
    { at: newest, kind: 'refused', address: '192.0.2.1', text: 'wrong password' },
  ]);
  const started = log.asked().length;
  const recorded = async () => {
    const unwritten = (first.allUnwritten()?.get(user) ?? []).map((each) => ({
      ...each,
      directory_id: id,
      username: user,
    }));
    const options = { accountId: api.tenant.accountId, directoryId: id, unwritten, topic: 'logins', limit: 3 } as const;
    const page = await activityPage(database.reads, { ...options, from: { at: now + DAY, skip: 0 } });
    const rest = page.next && (await activityPage(database.reads, { ...options, from: page.next }));
    return [...page.entries, ...(rest?.entries ?? [])].map(({ kind, address }) => `${kind} ${address}`);
  };
  const expected = [
    'refused 192.0.2.1',
    'refused 192.0.2.3',
    'login 192.0.2.2',
    'refused 192.0.2.1',
    'refused 192.0.2.1',
  ];
  assert.deepEqual(await recorded(), expected, 'each once, recorded or not');
  assert.deepEqual(log.asked().slice(started), [], 'no page starts a process');
  if (!onPostgres) {
    const plans = await plansOf(database.reads, (reads) =>
      activityPage(reads, {
        accountId: api.tenant.accountId,
        directoryId: id,
        unwritten: [],
        topic: 'logins',
        from: { at: now, skip: 0 },
        limit: 3,
      }),
    );
    assert.match(plans.at(-1)?.join() ?? '', /^SEARCH l USING INDEX logins_by_directory \(directory_id=\? AND at>/);
  }

  await first.close();
  await until('journalctl has ended', () => !log.isFollowed());
  assert.equal(first.unwritten(user), undefined);
  const second = follow(api);
  await until('it is read again', () => second.unwritten(user)?.length === 1);
  log.write([wrong(user, ago + 10, 107), wrong(user, now - 100 * SECOND, 108)]);
  await until('what came later is written', async () => (await rowsOf(api)).length > rows.length);
  await second.close();
  assert.deepEqual((await rowsOf(api)).slice(rows.length), ['refused 192.0.2.1 wrong password']);
});

test('a flood of refusals is counted, but costs a bounded number of rows', async () => {
  using place = scratch();
  await using api = await hosted(place);
  using log = madeJournal(place);
  const [flooded, quiet] = [await api.directory(), await api.directory()];
  const ago = clock.now() - 3600 * SECOND;
  const count = 30_000;
  log.write([wrong(quiet.sftp_username, ago - SECOND, 1)]);
  log.write(Array.from({ length: count }, (_, n) => wrong(flooded.sftp_username, ago + n * 50_000, 100 + n)));
  const before = process.cpuUsage();
  await using stack = new AsyncDisposableStack();
  stack.adopt(follow(api), (each) => each.close());
  await until('all are counted', async () => (await refusedBy(api)).reduce((a, b) => a + b) === count + 1);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 10 * SECOND, `${user + system} us of CPU`);
  const rows = await api.database.reads
    .selectFrom('logins')
    .select(['directory_id', ({ fn }) => fn.countAll<number>().as('count')])
    .groupBy('directory_id')
    .execute();
  const kept = new Map(rows.map((row) => [row.directory_id, row.count]));
  assert.equal(kept.get(quiet.id), 1, 'a neighbour keeps its own');
  assert.ok((kept.get(flooded.id) ?? 0) <= 1001, `${kept.get(flooded.id)} rows`);
  assert.equal((await api.send('DELETE', `/directories/${flooded.id}`)).status, 204);
  await until('they go with their directory', async () => (await rowsOf(api)).length === 1);
});

test('without a journal nothing is known, and a journal without sshd says nothing either', async () => {
  using place = scratch();
  await using api = await hosted(place);
  process.env['PATH'] = '/nowhere';
  const without = follow(api);
  using log = madeJournal(place);
  await without.close();
  const empty = follow(api);
  await until('it is followed', () => log.isFollowed());
  assert.equal(empty.unwritten('anybody'), undefined);
  await empty.close();
  const { knownUntil } = await refusalsByDay(api.database.reads, api.tenant.accountId, { now: clock.now(), days: 1 });
  assert.equal(knownUntil, undefined);
});

test('subscribers get refused logins, one for each reason in a minute, however many keys a client offers; a restart repeats none', async () => {
  using place = scratch();
  await using api = await hosted(place);
  using log = madeJournal(place);
  const [{ id, sftp_username: user }, silent] = [await api.directory(), await api.directory()];
  await api.send('PUT', `/directories/${id}/webhook/events`, { json: { events: ['login.refused'] } });
  const now = clock.now();
  const minute = now - (now % (60 * SECOND)) - 600 * SECOND;
  const offered = (at: number, pid: number): Entry => ({
    at,
    pid,
    message: `Failed publickey for ${user} from 192.0.2.1 port ${pid} ssh2: ED25519 SHA256:${String(pid).padEnd(43, 'x')}`,
  });
  log.write([
    ...Array.from({ length: 20 }, (_, i) => wrong(user, minute + i * SECOND, 100 + i)),
    ...Array.from({ length: 20 }, (_, i) => offered(minute + (20 + i) * SECOND, 200 + i)),
    wrong(silent.sftp_username, minute + 41 * SECOND, 300),
    wrong(user, minute + 61 * SECOND, 400),
  ]);
  const heard = async () =>
    ((await api.send('GET', '/events')).json as { data: { data: Record<string, unknown> }[] }).data.map(
      ({ data }) => data,
    );
  for (const expected of [3, 3]) {
    const logins = follow(api);
    await until('they are in rows', async () => (await rowsOf(api)).length === 42);
    await logins.close();
    assert.equal((await heard()).length, expected);
  }
  assert.deepEqual(
    (await heard()).map(({ event, sftp_username, address, reason }) => [event, sftp_username, address, reason]),
    ['wrong password', 'unknown key', 'wrong password'].map((reason) => ['login.refused', user, '192.0.2.1', reason]),
  );
});

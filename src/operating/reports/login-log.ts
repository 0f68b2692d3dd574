/**
 * Follows sshd's log, if there is one. Each login attempt becomes a row of its directory when its connection has ended, and refusals are
 * counted by day, so no page has to read the log. A crash loses none: reading resumes where the rows end. A flood of attempts costs
 * reading their lines and one transaction every few seconds.
 */
import type { Transaction } from 'kysely';
import { type Clock, DAY, type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { LoginLogTable, Tables } from '../../foundation/db/schema.ts';
import { enqueueDue } from '../../deliveries/webhooks/outbox.ts';
import { addToDay } from '../../rules/history/daily-totals.ts';
import {
  announceFurther,
  EVENT_COLUMNS,
  type EventDirectory,
  wants,
} from '../../deliveries/webhooks/further-events.ts';
import { APART, attemptsIn, type LogLine, type LoginAttempt, type SshdLog, userIn } from './sshd-log.ts';
import type { Ground, Store } from '../../foundation/context.ts';

/** How often a missing log is searched for. */
const RETRY_MS = 30_000;
/** How often attempts are written. */
const WRITE_MS = 5000;
/** After this long without a line, everything in the log has been read. */
const SILENCE_MS = 2000;
/** How far back the first reading goes, and the reading after a longer downtime. */
const FURTHEST = DAY;
/** The most lines in memory. With more within a minute, connections are judged before they have ended. */
const MAX_LINES = 20_000;
/** How many rows of a directory are kept: the newest. */
const KEPT_ROWS = 1000;
/** The longest time without a write, even without logins: the overview uses it to see whether the log is being read. */
const REMINDER = 600 * SECOND;

export interface LoginLog {
  /** The user's attempts that are not in a row yet; undefined while sshd's log is not being read. */
  unwritten(username: string): readonly LoginAttempt[] | undefined;
  /** Those of all users, by username. Clients may have made up some of these names. */
  allUnwritten(): ReadonlyMap<string, readonly LoginAttempt[]> | undefined;
  close(): Promise<void>;
}

export function followLogins({ config, background, database, clock }: Ground, log: SshdLog): LoginLog {
  const { node } = config;
  let isFollowing = false;
  let lines: LogLine[] = [];
  let lastLineAt = 0;
  /** Attempts before this time have become rows; undefined while no line has been read. */
  let judgedUntil: Micros | undefined;
  /** The same time as stored in the database. */
  let written: Micros = 0;

  const judging = background.start('logins', { every: WRITE_MS }, async () => {
    if (!isFollowing || judgedUntil === undefined) return;
    const isBehind = performance.now() - lastLineAt < SILENCE_MS;
    const over = Math.min(clock.now(), isBehind ? (lines.at(-1)?.at ?? 0) : Infinity) - APART;
    const until = lines.length < MAX_LINES ? over : (lines[MAX_LINES / 2]?.at ?? over);
    if (until <= judgedUntil) return;
    const attempts = attemptsByUser(lines, judgedUntil, until);
    if (attempts.size > 0 || until - written > REMINDER) {
      await write({ database, clock }, attempts, { node, read_until: until });
      written = until;
    }
    judgedUntil = until;
    lines = lines.filter(({ at }) => at >= until - APART);
  });

  const follower = background.start('sshd-log', { every: RETRY_MS, atOnce: true }, async (signal) => {
    const row = await database.reads
      .selectFrom('login_log')
      .select('read_until')
      .where('node', '=', node)
      .executeTakeFirst();
    const since = Math.max(row?.read_until ?? 0, clock.now() - FURTHEST);
    lines = [];
    judgedUntil = row && since;
    written = row?.read_until ?? 0;
    isFollowing = true;
    try {
      for await (const line of log.linesSince(since - APART, signal)) {
        judgedUntil ??= since;
        lines.push(line);
        lastLineAt = performance.now();
        if (lines.length >= MAX_LINES) await judging.run();
      }
    } finally {
      isFollowing = false;
    }
  });

  return {
    unwritten(username) {
      if (!isFollowing || judgedUntil === undefined) return undefined;
      return attemptsByUser(lines, judgedUntil, Infinity, username).get(username) ?? [];
    },
    allUnwritten() {
      if (!isFollowing || judgedUntil === undefined) return undefined;
      return attemptsByUser(lines, judgedUntil, Infinity);
    },
    async close() {
      await follower.close();
      await judging.close();
    },
  };
}

/** The attempts in that time by username, or those for one username. */
function attemptsByUser(
  lines: readonly LogLine[],
  since: Micros,
  until: Micros,
  only?: string,
): Map<string, LoginAttempt[]> {
  const processes = new Map<string, Set<string>>();
  for (const line of lines) {
    const user = userIn(line);
    if (user === undefined || line.at < since || line.at >= until || (only ?? user) !== user) continue;
    processes.set(user, (processes.get(user) ?? new Set()).add(line.pid));
  }
  if (processes.size === 0) return new Map();
  const byProcess = Map.groupBy(lines, ({ pid }) => pid);
  return new Map(
    Array.from(processes, ([user, pids]) => {
      const own = [...pids].flatMap((pid) => byProcess.get(pid) ?? []).toSorted((a, b) => a.at - b.at);
      const { attempts } = attemptsIn(own, user);
      return [user, attempts.filter(({ at }) => at >= since && at < until)];
    }),
  );
}

async function write(
  { database, clock }: Store,
  attempts: Map<string, LoginAttempt[]>,
  log: LoginLogTable,
): Promise<void> {
  await database.db.transaction().execute(async (tx) => {
    for (const [username, made] of attempts) await writeOf(tx, username, made, clock);
    await tx
      .insertInto('login_log')
      .values(log)
      .onConflict((conflict) => conflict.column('node').doUpdateSet(log))
      .execute();
  });
}

async function writeOf(
  tx: Transaction<Tables>,
  username: string,
  attempts: readonly LoginAttempt[],
  clock: Clock,
): Promise<void> {
  const directory = await tx
    .selectFrom('directories')
    .select([...EVENT_COLUMNS, 'deleted_at'])
    .where('sftp_username', '=', username)
    .executeTakeFirst();
  // The client may have made up the name.
  if (!directory) return;
  const { id: directory_id, account_id } = directory;
  const refused = attempts.filter(({ kind }) => kind === 'refused');
  // First, since this compares them to the earlier rows.
  if (directory.deleted_at === null) await announceRefusals(tx, directory, refused, clock);
  for (const { at, kind, address, text } of attempts.slice(-KEPT_ROWS))
    await tx.insertInto('logins').values({ directory_id, account_id, at, kind, address, text }).execute();
  const newest = tx.selectFrom('logins').select('at').where('directory_id', '=', directory_id).orderBy('at', 'desc');
  await tx
    .deleteFrom('logins')
    .where('directory_id', '=', directory_id)
    .where('at', '<', newest.limit(1).offset(KEPT_ROWS))
    .execute();
  for (const [day, { length }] of Map.groupBy(refused, ({ at }) => at - (at % DAY)))
    await addToDay(tx, { owner_id: account_id, kind: 'refusals', day, count: length, bytes: 0 });
}

const MINUTE_MICROS = 60 * SECOND;

/** Announces one refusal for each reason and minute. The earlier rows show which were announced, so no other state is stored. */
async function announceRefusals(
  tx: Transaction<Tables>,
  directory: EventDirectory & { readonly sftp_username: string },
  refused: readonly LoginAttempt[],
  clock: Clock,
): Promise<void> {
  const [first] = refused;
  if (!first || !(await wants(tx, directory, 'login.refused'))) return;
  const nameOf = ({ at, text }: Pick<LoginAttempt, 'at' | 'text'>) => `${at - (at % MINUTE_MICROS)} ${reasonIn(text)}`;
  const before = await tx
    .selectFrom('logins')
    .select(['at', 'text'])
    .where('directory_id', '=', directory.id)
    .where('at', '>=', first.at - (first.at % MINUTE_MICROS))
    .where('kind', '=', 'refused')
    .execute();
  const announced = new Set(before.map(nameOf));
  for (const { at, address, text } of refused) {
    const name = nameOf({ at, text });
    if (announced.has(name)) continue;
    announced.add(name);
    const fields = { sftp_username: directory.sftp_username, address, reason: reasonIn(text) };
    const event = { kind: 'login.refused', at, fields } as const;
    await announceFurther(tx, directory, event, (_, delivery) => enqueueDue(tx, delivery, clock));
  }
}

/** The reason without the key: a client can offer any number of keys. */
function reasonIn(text: string): string {
  return text.replace(/ SHA256:\S+ \(\S+\)/, '');
}

/** Checks of the database: its schema and its rows, deliveries that are stuck or late, and backups. */
import { existsSync, lstatSync } from 'node:fs';
import { inspect } from '../../../foundation/db/inspect.ts';
import { isPostgresUrl, shownPlace } from '../../../foundation/base/database-place.ts';
import { explained, refuseUnsuitable, serverState } from '../../../foundation/db/postgres-server.ts';
import { isUnfinished } from '../../../foundation/db/unfinished-restore.ts';
import { errorMessage } from '../../../foundation/base/errors.ts';
import { type Check, fail, type Finding, ok, orOk, warn } from '../finding.ts';
import { sql } from 'kysely';
import { listNodes } from '../../nodes/list.ts';
import { counted } from '../../../foundation/base/text.ts';
import { DAY, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { DeliveryState } from '../../../foundation/db/schema.ts';
import { presentTime } from '../../../foundation/db/shared.ts';
import { lastBackup } from '../../../foundation/base/last-backup.ts';

/** A write-ahead log of this size is not being moved into the database: some process keeps a read open. */
const LARGE_LOG = 512 * 1024 * 1024;

/** If a trivial query takes longer, every request is slow. */
const SLOW_MS = 100;

export const checkDatabase: Check = async (config, clock) =>
  isPostgresUrl(config.database) ? checkServer(config.database) : checkFile(config, clock);

async function checkServer(url: string): Promise<Finding[]> {
  const where = shownPlace(url);
  try {
    await using inspection = await inspect(url);
    await refuseUnsuitable(inspection.db, url);
    const began = performance.now();
    const { version, is_forgetful: isForgetful, is_exposed: isExposed } = await serverState(inspection.db);
    const ms = Math.ceil(performance.now() - began);
    const { missing, unknown } = await inspection.schema();
    return orOk(
      [
        ...ofSchema(where, missing, unknown),
        isForgetful &&
          warn(
            `${where} may lose confirmed changes in a power cut (synchronous_commit)`,
            "alter database NAME set synchronous_commit = 'on'",
          ),
        isExposed && warn(`the connection to ${where} is not encrypted`, 'sslmode=verify-full in the URL'),
        ms > SLOW_MS &&
          warn(`${where} took ${ms} ms to answer a trivial query`, 'check the load of its machine and of the network'),
      ],
      `${where} answers in ${ms} ms: PostgreSQL ${version}, of this version`,
    );
  } catch (error) {
    return [fail(errorMessage(explained(error, url)), 'fix the server or BERTH_DATABASE_URL; sshd goes on meanwhile')];
  }
}

function ofSchema(where: string, missing: readonly string[], unknown: readonly string[]): (Finding | false)[] {
  return [
    unknown.length > 0 &&
      fail(`${where} was written by a newer berth (${unknown.join(', ')})`, 'install that version again'),
    missing.length > 0 && warn(`${where} still has to be migrated (${missing.join(', ')})`, 'restart berth'),
  ];
}

const checkFile: Check = async (config) => {
  const file = config.database;
  if (!existsSync(file)) return [fail(`${file} is missing`, 'start berth to create one, or: berth restore FILE')];
  const mode = lstatSync(file).mode & 0o777;
  const log = lstatSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  await using inspection = await inspect(file);
  const damage = inspection.damage();
  const { missing, unknown } = damage === undefined ? await inspection.schema() : { missing: [], unknown: [] };
  return orOk(
    [
      isUnfinished(config) && fail('a restore was interrupted', 'systemctl restart berth, which finishes it first'),
      (mode & 0o077) !== 0 && fail(`others can read ${file} (mode ${mode.toString(8)})`, `chmod 600 ${file}`),
      log > LARGE_LOG &&
        warn(
          `${file}-wal has grown to ${log >> 20} MiB`,
          `end the process that keeps it open (fuser ${file}), then restart berth`,
        ),
      damage !== undefined &&
        fail(`${file} is damaged: ${damage}`, 'stop berth, keep a copy of the file, then: berth restore FILE'),
      ...ofSchema(file, missing, unknown),
    ],
    `${file} is undamaged and of this version`,
  );
};

/** The machines that share a PostgreSQL database: whether each is live, and what waits for one that is not. */
export const checkNodes: Check = async ({ database, node }) => {
  if (node === '') return [];
  await using inspection = await inspect(database);
  const nodes = await listNodes(inspection.db);
  const waiting = await inspection.db
    .selectFrom('unapplied as u')
    .innerJoin('directories as d', 'd.id', 'u.directory_id')
    .select(({ fn }) => ['d.node', fn.countAll<number>().as('changes')])
    .where('u.done', '<', sql.ref<number>('u.version'))
    .groupBy('d.node')
    .execute();
  const away = nodes.filter(({ state, directories }) => state === 'away' && directories > 0);
  return orOk(
    [
      !nodes.some(({ name }) => name === node) &&
        warn(`the database does not know the node ${node} yet`, 'start berth, or correct BERTH_NODE'),
      ...away.map(({ name, directories }) => {
        const changes = waiting.find((each) => each.node === name)?.changes ?? 0;
        return fail(
          `the node ${name} is away: uploads to its ${counted(directories, 'directory', 'directories')} are not announced, and ${counted(changes, 'change')} must wait for it`,
          `start berth on ${name}`,
        );
      }),
    ],
    `this is the node ${node}; ${nodes.map(({ name, state }) => `${name} is ${state}`).join(', ')}`,
  );
};

// Checks that no webhook is stuck or late.

/** A due delivery waits for its destination's turn. After this long, the queue is stuck or too slow. */
const SLOW_AFTER: Micros = 600 * SECOND;
/** A lease lasts 20 s. One this old was abandoned. */
const ABANDONED_AFTER: Micros = 120 * SECOND;

export const checkDeliveries: Check = async ({ database }, clock) => {
  await using inspection = await inspect(database);
  const now = await presentTime(inspection.db, clock);
  const count = async (state: DeliveryState, time: 'due_at' | 'finished_at', is: '<' | '>', at: Micros) => {
    const query = inspection.db
      .selectFrom('deliveries')
      .where('state', '=', state)
      .where(time, is, at)
      .where('event', '<>', 'test');
    const { rows } = await query.select(({ fn }) => fn.countAll<number>().as('rows')).executeTakeFirstOrThrow();
    return rows;
  };
  const overdue = await count('queued', 'due_at', '<', now - SLOW_AFTER);
  const stuck =
    (await count('running', 'due_at', '<', now - ABANDONED_AFTER)) +
    (await count('waiting', 'due_at', '<', now - SLOW_AFTER));
  const failed = await count('failed', 'finished_at', '>', now - DAY);
  const givenUp = failed > 0 ? `; ${failed} failed for good in the last day (berth deliveries --failed)` : '';
  return orOk(
    [
      stuck > 0 && fail(`${stuck} deliveries are stuck in an attempt or before a retry`, 'restart berth'),
      overdue > 0 &&
        warn(
          `due for over 10 minutes: ${counted(overdue, 'webhook')}`,
          'check that berth runs, and which receiver is slow: berth deliveries',
        ),
    ],
    `no webhook is stuck${givenUp}`,
  );
};

// Checks that there is a recent backup, once there is something to lose.

/** Backups are made every night, and one may fail. */
const OLD_DAYS = 2;

const REMEDY = 'systemctl enable --now berth-backup.timer; if one failed, see journalctl -u berth-backup';

export const checkBackups: Check = async (config, clock) => {
  const last = lastBackup(config);
  if (last !== undefined) {
    const days = Math.floor((clock.now() - last) / DAY);
    if (days >= OLD_DAYS) return [warn(`the last backup is ${days} days old`, REMEDY)];
    return [ok('the last backup is less than two days old')];
  }
  await using inspection = await inspect(config.database);
  const first = await inspection.db
    .selectFrom('directories')
    .select('inserted_at')
    .orderBy('inserted_at')
    .limit(1)
    .executeTakeFirst();
  if (first === undefined || clock.now() - first.inserted_at < OLD_DAYS * DAY) return [ok('there is no backup yet')];
  return [warn('there is no backup', REMEDY)];
};

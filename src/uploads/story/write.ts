/** One transaction for several directories: rows, totals, history and webhooks. */
import type { Transaction } from 'kysely';
import { isUnavailable } from '../../db/away.ts';
import { compiled } from '../../db/compiled.ts';
import type { Tables } from '../../db/schema.ts';
import { insertTransfers } from '../../history/transfers.ts';
import { errorCode } from '../../errors.ts';
import type { Enqueued } from '../../webhooks/dispatcher.ts';
import { announceInOrder, wantedEvents } from '../../webhooks/further-events.ts';
import type { UploadEvent } from '../../webhooks/outbox.ts';
import type { FilePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { FileRow } from '../record/files.ts';
import { furtherIn, type HistoryRow, noteRows, type Repeating, type SessionNote } from '../record/history.ts';
import type { Look, Task } from './agenda.ts';
import { apply, type Outcome } from './apply.ts';
import { DirectoryInTransaction, type Requests, type WorldOfDirectory } from './directory.ts';
import { lookAt, type LookOutcome } from './look.ts';
import type { Ending } from './operations.ts';
import { PathSet } from './path-set.ts';

/** The directory, while it is live and at home on this node. */
const live = compiled<{ id: string; node: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(['id', 'account_id', 'slug', 'external_id', 'webhook_url', 'uses_account_webhook', 'sftp_username'])
    .select(wantedEvents.as('wanted'))
    .where('id', '=', p('id'))
    .where('node', '=', p('node'))
    .where('deleted_at', 'is', null),
);

/** What is to be done about one directory. */
export interface Taken<W> {
  readonly work: W;
  readonly tasks: readonly Task[];
  readonly looks: readonly Look[];
}

export interface Applied<W> extends Taken<W> {
  readonly outcomes: readonly (Outcome | 'hold')[];
  readonly lookOutcomes: readonly (LookOutcome | 'hold')[];
  /** What follows the commit. */
  readonly afterwards: readonly (() => void)[];
}

export interface WriteOptions<W> {
  /** Whose directories these are. */
  readonly node: string;
  readonly repeating: Repeating;
  worldOf(work: W): WorldOfDirectory;
  /** What a commit asks for. */
  requestsOf(work: W): Requests;
  /** What was lost has been found. */
  found(directoryId: string, lost: { readonly endings: readonly Ending[]; readonly rows: readonly FileRow[] }): void;
}

interface Written<W> {
  readonly applied: readonly Applied<W>[];
  /** What went into the history. */
  readonly history: readonly HistoryRow[];
}

export async function write<W extends { readonly jail: Jail }>(
  tx: Transaction<Tables>,
  taken: readonly Taken<W>[],
  notes: readonly SessionNote[],
  options: WriteOptions<W>,
): Promise<Enqueued<Written<W>>> {
  const { node, repeating, worldOf, requestsOf, found } = options;
  const applied: Applied<W>[] = [];
  const history: HistoryRow[] = [];
  const uploads: UploadEvent[] = [];
  for (const each of taken) {
    const row = await live.first(tx, { id: each.work.jail.id, node });
    if (!row) {
      applied.push(nothingOf(each));
      continue;
    }
    const afterwards: (() => void)[] = [];
    const requests = deferred(requestsOf(each.work), afterwards);
    const directory = new DirectoryInTransaction(tx, row, worldOf(each.work), requests, repeating);
    applied.push({ ...each, ...(await applyAll(each, directory)), afterwards });
    await directory.files.flush();
    const { matched: endings, found: rows } = directory;
    if (endings.length + rows.length > 0) afterwards.push(() => found(row.id, { endings, rows }));
    history.push(...directory.history);
    uploads.push(...directory.uploads);
  }
  history.push(...(await noteRows(tx, notes, repeating)));
  await insertTransfers(
    tx,
    history.map(({ row }) => row),
  );
  const destinations = await announceInOrder(tx, uploads, await furtherIn(tx, history));
  return { value: { applied, history }, destinations };
}

/** The directory has been deleted, or moved to another node, and nothing in it matters any more. */
function nothingOf<W>(taken: Taken<W>): Applied<W> {
  const outcomes = taken.tasks.map(() => 'done' as const);
  return { ...taken, outcomes, lookOutcomes: taken.looks.map(() => 'settled' as const), afterwards: [] };
}

/** A transaction may be repeated, so what it asks for waits for its commit. */
function deferred({ look, compare, waits }: Requests, afterwards: (() => void)[]): Requests {
  return {
    look: (path: FilePath, inMs: number) => void afterwards.push(() => look(path, inMs)),
    compare: () => void afterwards.push(compare),
    waits: (pid: number, path: FilePath) => void afterwards.push(() => waits(pid, path)),
  };
}

/** What waits holds back what is related to it, in the same transaction too. */
async function applyAll({ tasks, looks }: Taken<unknown>, directory: DirectoryInTransaction) {
  const held = new PathSet();
  const outcomes: (Outcome | 'hold')[] = [];
  for (const task of tasks) {
    const { operation, paths } = task;
    const isEnd = operation.kind === 'end';
    const isHeld = isEnd ? !held.isEmpty : held.touches(paths);
    const outcome = isHeld ? 'hold' : await apply(task, directory);
    if (outcome !== 'done') {
      if (isEnd) held.addAll();
      else held.add(paths);
    }
    outcomes.push(outcome);
  }
  const lookOutcomes: (LookOutcome | 'hold')[] = [];
  for (const look of looks) {
    const isHeld = held.touches([look.path]);
    lookOutcomes.push(isHeld ? 'hold' : await lookAt(look, directory.world.trackedAt(look.path), directory));
  }
  return { outcomes, lookOutcomes };
}

/** Each operation and each look by itself. */
export function separated<W>(taken: readonly Taken<W>[]): Taken<W>[] {
  return taken.flatMap(({ work, tasks, looks }) => [
    ...tasks.map((task) => ({ work, tasks: [task], looks: [] })),
    ...looks.map((look) => ({ work, tasks: [], looks: [look] })),
  ]);
}

/** Trouble that goes away by itself: no space, or a database that cannot be asked. */
export function isPassing(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  if (isUnavailable(error)) return true;
  return /^SQLITE_(FULL|BUSY|IOERR|CANTOPEN)/.test(code) || code === 'EMFILE' || code === 'ENFILE' || code === 'EIO';
}

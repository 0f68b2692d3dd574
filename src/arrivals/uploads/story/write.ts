/** One transaction for several directories: rows, totals, history and webhooks. */
import type { Transaction } from 'kysely';
import { compiled } from '../../../foundation/db/compiled.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import { insertTransfers } from '../../../rules/history/transfers.ts';
import { errorCode, isOutOfDescriptors, isUnavailable } from '../../../foundation/base/errors.ts';
import type { Enqueued } from '../../../foundation/db/database.ts';
import { announceInOrder, EVENT_COLUMNS } from '../../../deliveries/webhooks/further-events.ts';
import type { UploadEvent } from '../../../deliveries/webhooks/outbox.ts';
import type { FilePath } from '../file-path.ts';
import type { Jail } from '../jails.ts';
import type { FileRow } from '../record/files.ts';
import { furtherIn, type HistoryRow, noteRows, type Repeating, type SessionNote } from '../record/transfer-history.ts';
import { apply } from './apply.ts';
import type { Outcome } from './outcome.ts';
import { DirectoryInTransaction, type Requests, type WorldOfDirectory } from './directory.ts';
import type { Look, Task } from './jobs.ts';
import { lookAt, type LookOutcome } from './look.ts';
import type { Ending } from './operations.ts';
import { PathSet } from './path-set.ts';

/** The directory, unless it was deleted or moved to another node. */
const live = compiled<{ id: string; node: string }>()((db, p) =>
  db
    .selectFrom('directories')
    .select(EVENT_COLUMNS)
    .where('id', '=', p('id'))
    .where('node', '=', p('node'))
    .where('deleted_at', 'is', null),
);

/** How long a transaction goes on taking operations, in ms: everybody else's waits for it. */
const TRANSACTION_MS = 25;

/** The work taken from one directory. */
export interface Taken<W> {
  readonly work: W;
  readonly tasks: readonly Task[];
  readonly looks: readonly Look[];
}

export interface Applied<W> extends Taken<W> {
  readonly outcomes: readonly (Outcome | 'hold')[];
  readonly lookOutcomes: readonly LookOutcome[];
  /** The transaction was over before it came to this directory. */
  readonly isLeftOut: boolean;
  /** Runs after the commit. */
  readonly afterwards: readonly (() => void)[];
}

export interface WriteOptions<W> {
  /** The node of these directories. */
  readonly node: string;
  readonly repeating: Repeating;
  /** A monotonic clock, in ms. */
  monotonic(): number;
  worldOf(work: W): WorldOfDirectory;
  /** Receives the looks and comparisons that a transaction requests. */
  requestsOf(work: W): Requests;
  /** Called with lost endings and rows whose files have been found. */
  found(directoryId: string, lost: { readonly endings: readonly Ending[]; readonly rows: readonly FileRow[] }): void;
}

interface Written<W> {
  readonly applied: readonly Applied<W>[];
  /** The rows that went into the history. */
  readonly history: readonly HistoryRow[];
}

export async function write<W extends { readonly jail: Jail }>(
  tx: Transaction<Tables>,
  taken: readonly Taken<W>[],
  notes: readonly SessionNote[],
  options: WriteOptions<W>,
): Promise<Enqueued<Written<W>>> {
  const { node, repeating, monotonic, worldOf, requestsOf, found } = options;
  const isOver = lasting(TRANSACTION_MS, monotonic);
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
    applied.push({ ...each, ...(await applyAll(each, directory, isOver)), afterwards });
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

/** The result for a directory that was deleted or moved to another node: its work is dropped. */
function nothingOf<W>(taken: Taken<W>): Applied<W> {
  const outcomes = taken.tasks.map(() => 'done' as const);
  const lookOutcomes = taken.looks.map(() => 'settled' as const);
  return { ...taken, outcomes, lookOutcomes, isLeftOut: false, afterwards: [] };
}

/** Defers requests until the commit, because the transaction may be repeated. */
function deferred({ look, compared, compare, waits, committed }: Requests, afterwards: (() => void)[]): Requests {
  return {
    look: (path: FilePath, inMs: number) => void afterwards.push(() => look(path, inMs)),
    compared: (path: FilePath) => void afterwards.push(() => compared(path)),
    compare: () => void afterwards.push(compare),
    waits: (pid: number, path: FilePath) => void afterwards.push(() => waits(pid, path)),
    committed: (action: () => void) => void afterwards.push(() => committed(action)),
  };
}

/** Whether that many ms are over since the first question, which is answered with no: something is done in each turn. */
function lasting(ms: number, monotonic: () => number): () => boolean {
  let until: number | undefined;
  return () => monotonic() >= (until ??= monotonic() + ms);
}

/**
 * Applies tasks and looks. A task that has to wait holds back the later ones on related paths. Looks are related to no
 * task (`Agenda.takeLooks`).
 */
async function applyAll({ tasks, looks }: Taken<unknown>, directory: DirectoryInTransaction, isOver: () => boolean) {
  const isLeftOut = isOver();
  const held = new PathSet();
  const outcomes: (Outcome | 'hold')[] = [];
  for (const task of tasks) {
    const { operation, paths } = task;
    const isEnd = operation.kind === 'end';
    const isHeld = isOver() || (isEnd ? !held.isEmpty : held.touches(paths));
    const outcome: Outcome | 'hold' = isHeld ? 'hold' : await apply(task, directory);
    if (outcome !== 'done') {
      if (isEnd) held.addAll();
      else held.add(paths);
    }
    outcomes.push(outcome);
  }
  const lookOutcomes: LookOutcome[] = [];
  for (const look of looks) {
    const file = directory.world.trackedAt(look.path);
    lookOutcomes.push(isOver() ? { again: 0 } : await lookAt(look, file, directory));
  }
  return { outcomes, lookOutcomes, isLeftOut };
}

/** Splits the work into single operations and looks. */
export function separated<W>(taken: readonly Taken<W>[]): Taken<W>[] {
  return taken.flatMap(({ work, tasks, looks }) => [
    ...tasks.map((task) => ({ work, tasks: [task], looks: [] })),
    ...looks.map((look) => ({ work, tasks: [], looks: [look] })),
  ]);
}

/** PostgreSQL's codes for a missing table and a missing column: a newer berth on another node has migrated the schema. */
const MIGRATED: ReadonlySet<string> = new Set(['42P01', '42703']);

/**
 * Whether an error is temporary: no space, too many open files, an I/O error, an unavailable database, or a schema for which this node
 * has to be upgraded.
 */
export function isPassing(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  if (isUnavailable(error) || isOutOfDescriptors(error) || MIGRATED.has(code)) return true;
  return /^SQLITE_(FULL|BUSY|IOERR|CANTOPEN)/.test(code) || code === 'EIO';
}

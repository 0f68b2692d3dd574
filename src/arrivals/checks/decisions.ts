/**
 * Announces a file whose name has settled and that has passed the check, or moves it to the quarantine. Both read the file's row again inside the transaction: a file that
 * was overwritten, renamed or removed meanwhile is not the one that was checked.
 *
 * Promise: one transaction writes the row, the history and the webhook. A crash leaves the file in check, announced, or
 * rejected. If it was on its way out of its directory, the next start puts it back or into the quarantine
 * (`files/transit.ts`).
 */
import type { Transaction } from 'kysely';
import { verifyActor } from '../../rules/accounts/actor.ts';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../foundation/db/schema.ts';
import { liveDirectory, type Target } from '../../rules/directories/target.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { insertTransfers } from '../../rules/history/transfers.ts';
import { announceUpload } from '../uploads/arrival.ts';
import { checkingOf } from '../files/file-rows.ts';
import { changed, currentTag, inUse } from '../files/content.ts';
import { displayName, pathOf, unannouncedNames } from '../uploads/file-path.ts';
import { type FileRow, Files } from '../uploads/record/files.ts';
import { fileStat, isAsRecorded, isSame } from '../uploads/record/file-stat.ts';
import { type HistoryRow, historyRow, recordHistory, senderOf } from '../uploads/record/transfer-history.ts';
import { withdrawing } from '../files/removal.ts';
import type { FilesContext } from '../files/context.ts';
import { moveTo } from './quarantine.ts';
import { enqueue, type UploadEvent } from '../../deliveries/webhooks/outbox.ts';

/** Where rejected files go. */
export interface RejectedFiles {
  /** The path of an upload's file in the quarantine. */
  placeOf(directoryId: string, uploadId: string): string;
  /** Called when a rejected file could not be moved to the quarantine, and stays in transit. */
  stayed(): void;
}

export interface Passing {
  /** The `Content.tag` that was checked; undefined when the file was not checked. */
  readonly tag?: string | undefined;
  /** The file has to have had its name since then; undefined if that does not matter. */
  readonly namedBy?: Micros | undefined;
  readonly actor?: Target['actor'];
}

export type Passed = ReadonlyMap<string, BerthError | undefined>;

/** All throw {BerthError} `upload_not_found`, `file_changed`, `file_in_use`, `directory_not_found`, `home_elsewhere`. */
export interface Decisions {
  /** Announces a file, unless it was complete before and was only checked again. */
  pass(directory: DirectoryRow, fileId: string, passing?: Passing): Promise<void>;
  /**
   * Passes as many of the files as a short transaction has room for, at least the first.
   * @returns the files that it has come to, those that could not be passed with the reason.
   */
  passAll(directory: DirectoryRow, fileIds: readonly string[], passing?: Passing): Promise<Passed>;
  /** Moves a file to the quarantine. @param reason the checker's. */
  reject(directory: DirectoryRow, file: FileRow, tag: string, reason: string): Promise<void>;
  /** Remembers why a file could not be checked, and leaves it in check. */
  failed(directory: DirectoryRow, file: FileRow, reason: string): Promise<void>;
}

/** How long a transaction goes on passing files, in ms: everybody else's waits for it. */
const TRANSACTION_MS = 25;

/** How many characters of a checker's reason are kept. */
const REASON_LENGTH = 500;

export function decisions(context: FilesContext, { placeOf, stayed }: RejectedFiles): Decisions {
  const { config, clock, transact } = context;
  const { node } = config;
  const isUnannounced = unannouncedNames(config.unannouncedNames);

  /** Throws unless the file is still the one that was checked, and its name has settled. */
  async function asChecked(
    tx: Transaction<Tables>,
    directory: DirectoryRow,
    fileId: string,
    { tag, namedBy }: Passing,
  ) {
    const row = await checkingOf(tx, directory.id, fileId);
    if (namedBy !== undefined && row.named_at > namedBy) throw changed();
    const root = context.filesRoot(directory.sftp_username);
    const stats = lstatBeneath(root, row.path);
    const stat = stats?.isFile() ? fileStat(stats) : undefined;
    // What nobody has checked is as its row has it. A session may have just written or renamed it.
    const isIt = tag === undefined && namedBy !== undefined ? isAsRecorded : isSame;
    if (!stat || !isIt(row, stat)) throw changed();
    if (tag !== undefined && currentTag(root, row.path) !== tag) throw changed();
    if (context.isHeldNow(directory.id, stat.inode)) throw inUse();
    return { row, stat };
  }

  async function passAll(of: DirectoryRow, fileIds: readonly string[], passing: Passing = {}): Promise<Passed> {
    // A session may have just opened a file again, or renamed it.
    await context.caughtUp(of);
    const { passed, history } = await transact(async (tx) => {
      const target = { accountId: of.account_id, id: of.id, actor: passing.actor };
      await verifyActor(tx, target);
      const directory = await directoryHere(tx, target, node);
      const files = new Files(tx, directory.id);
      const until = performance.now() + TRANSACTION_MS;
      const outcomes = new Map<string, BerthError | undefined>();
      const entries: HistoryRow[] = [];
      const announced: UploadEvent[] = [];
      for (const id of fileIds) {
        if (outcomes.size > 0 && performance.now() >= until) break;
        const found = await asChecked(tx, directory, id, passing).catch(refusal);
        outcomes.set(id, found instanceof BerthError ? found : undefined);
        if (found instanceof BerthError) continue;
        const { row, stat } = found;
        if (row.returns_to !== null) {
          // Announced or placed long ago, and only checked again.
          await files.update(row, { ...stat, state: row.returns_to, returns_to: null, check_failure: null });
          continue;
        }
        const at = clock.now();
        const path = pathOf(row.path);
        const upload = { path, at, bytes: row.size_bytes, ...(await senderOf(tx, row)) };
        const { history: entry, uploads } = announceUpload({ directory, files, isUnannounced }, upload, row.id);
        await files.update(row, { ...stat, state: 'uploaded', uploaded_at: at, check_failure: null });
        entries.push(entry);
        announced.push(...uploads);
        await tx.deleteFrom('quarantine').where('id', '=', row.id).execute();
        const file = { from: displayName(path), to: displayName(path) };
        await insertAudit(tx, target, { action: 'release-file', at, directory, details: { file } });
      }
      await files.flush();
      await insertTransfers(
        tx,
        entries.map(({ row }) => row),
      );
      return { value: { passed: outcomes, history: entries }, destinations: await enqueue(tx, ...announced) };
    });
    if (history.length > 0) context.recorded(history);
    return passed;
  }

  async function pass(of: DirectoryRow, fileId: string, passing?: Passing): Promise<void> {
    const refused = (await passAll(of, [fileId], passing)).get(fileId);
    if (refused) throw refused;
  }

  async function reject(of: DirectoryRow, file: FileRow, tag: string, said: string): Promise<void> {
    const reason = said.slice(0, REASON_LENGTH);
    let history: HistoryRow | undefined;
    if (currentTag(context.filesRoot(of.sftp_username), file.path) !== tag) throw changed();
    const taken = await withdrawing(context, of, file, async (stays) => {
      history = await transact(async (tx) => {
        const directory = await directoryHere(tx, { id: of.id, accountId: of.account_id }, node);
        const row = await checkingOf(tx, of.id, file.id);
        if (!row.path.equals(file.path) || !isSame(row, file)) throw changed();
        const at = clock.now();
        const { id, directory_id, path, size_bytes, inode, mtime } = row;
        const kept = { id, directory_id, node, path, size_bytes, inode, mtime, reason };
        await tx
          .insertInto('quarantine')
          .values({ ...kept, rejected_at: at, released_at: null })
          .execute();
        const files = new Files(tx, of.id);
        const sender = await senderOf(tx, row);
        await (stays ? files.update(row, { state: 'removed' }) : files.remove(row));
        await files.flush();
        const about = { event: 'rejected', path: pathOf(path), at, bytes: size_bytes, reason, ...sender } as const;
        const entry = historyRow(directory, about);
        return { value: entry, destinations: await recordHistory(tx, [entry]) };
      });
    });
    if (history) context.recorded([history]);
    try {
      if (taken !== undefined) moveTo(placeOf(of.id, file.id), taken);
    } catch {
      stayed();
    }
  }

  async function failed(of: DirectoryRow, file: FileRow, said: string): Promise<void> {
    const check_failure = said.slice(0, REASON_LENGTH);
    // Each try would write it again.
    if (file.check_failure === check_failure) return;
    await transact(async (tx) => {
      await directoryHere(tx, { id: of.id, accountId: of.account_id }, node);
      await new Files(tx, of.id).update(await checkingOf(tx, of.id, file.id), { check_failure });
      return { value: undefined, destinations: [] };
    });
  }

  return { pass, passAll, reject, failed };
}

/** The reason why a file was not passed. Throws any other error again. */
export function refusal(error: unknown): BerthError {
  if (error instanceof BerthError) return error;
  throw error;
}

/** @throws {BerthError} `directory_not_found`; `home_elsewhere` when another node has its files. */
async function directoryHere(
  tx: Transaction<Tables>,
  target: Pick<Target, 'id' | 'accountId'>,
  node: string,
): Promise<DirectoryRow> {
  const directory = await liveDirectory(tx, target);
  if (directory.node === node) return directory;
  throw new BerthError('home_elsewhere', `The files of this directory are on ${directory.node}: do this there`);
}

/**
 * Decides whether a link works now. A request is checked when it arrives, and again in the transaction of its change: a link
 * that has expired, or was used or revoked in between, changes nothing.
 */
import type { Store } from '../../foundation/context.ts';
import { randomUUID } from 'node:crypto';
import type { Kysely, Selectable, Transaction } from 'kysely';
import { hasExpired } from '../../foundation/base/clock.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Database } from '../../foundation/db/open.ts';
import type { DirectoryRow, LinksTable, Tables } from '../../foundation/db/schema.ts';
import { isWithin } from '../../rules/directories/networks.ts';
import { refusingWhenFull } from '../../rules/directories/storage-full.ts';
import { BY_LINK, insertAudit } from '../../rules/history/audit.ts';
import { pathOf } from '../uploads/file-path.ts';
import { historyRow, recordHistory } from '../uploads/record/transfer-history.ts';
import { isOfKeyInForce } from './links.ts';
import { passwordOf } from './password.ts';
import { cutOff, isWhole, joined, type Part, type Progress, progressOf, type SentFile, stored } from './progress.ts';
import { hashToken } from '../../foundation/base/hashes.ts';

/** A link's token, and the address of the client that uses it. */
export interface Visit {
  readonly token: string;
  readonly address: string;
}

/** What a link that works gives access to. */
export interface Admitted {
  readonly link: Selectable<LinksTable>;
  readonly directory: DirectoryRow;
  /** The name of the directory's account, for the page that outsiders see. */
  readonly account: string;
}

/** A download of a part of a file, or of all of it. */
export interface Download {
  readonly file: SentFile;
  readonly part: Part;
  /** Identifies the request. */
  readonly id: string;
}

export interface LinkUses {
  /** @throws {BerthError} `link_invalid`, `link_ended`. */
  check(visit: Visit): Promise<Admitted>;
  /**
   * Like `check`, and uses up a single-use link with the commit of the transaction.
   * @returns the id of a link that this used up.
   * @throws {BerthError} like `check`.
   */
  take(tx: Transaction<Tables>, visit: Visit): Promise<string | undefined>;
  /**
   * Begins a download. A single-use link is used up once all bytes of the file are being sent, unless that fails.
   * @throws {BerthError} like `check`.
   */
  begin(visit: Visit, admitted: Admitted, file: SentFile, part: Part): Promise<Download>;
  /** Shows a password, which uses up its link. @throws {BerthError} like `check`. */
  showPassword(visit: Visit, request: { readonly requestId: string; readonly route: string }): Promise<string>;
  /** Ends a download. @param cutOffAfter how many bytes were read when it was cut off; undefined if all were sent. */
  end(visit: Visit, admitted: Admitted, download: Download, cutOffAfter: number | undefined): Promise<void>;
}

const USED = 'This link has been used, and works only once. Ask for a new one.';
const SHOWN_BEFORE =
  'The password was shown before, and is shown only once. If that was not to you, ask for a new one.';

export function invalid(): BerthError {
  return new BerthError('link_invalid', 'This link is not valid. Ask for a new one.');
}

export function linkUses({ database, clock }: Store): LinkUses {
  async function admitted(db: Kysely<Tables>, { token, address }: Visit, isLocked: boolean): Promise<Admitted> {
    // Locked in the order of other changes: the directory before what belongs to it.
    const id = (await linkOf(db, token))?.directory_id ?? '';
    const query = db.selectFrom('directories').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
    const directory = await (isLocked ? query.forNoKeyUpdate() : query).executeTakeFirst();
    const link = directory && (await linkOf(db, token));
    const account = directory && (await nameOfLiveAccount(db, directory));
    if (!directory || !link || account === undefined) throw invalid();
    const now = clock.now();
    if (link.expires_at <= now) throw new BerthError('link_ended', 'This link has expired. Ask for a new one.');
    const isPassword = link.kind === 'password';
    if (directory.suspended === 1 || hasExpired(directory, now) || (isPassword && directory.auth_mode === 'public_key'))
      throw new BerthError('link_invalid', 'This link does not work at the moment.');
    // A password is often read elsewhere than on the machine that logs in with it.
    if (!isPassword && !isWithin(JSON.parse(directory.allowed_networks) as string[], address))
      throw new BerthError('link_invalid', 'This link does not work from this network.');
    if (link.used_at !== null) throw new BerthError('link_ended', isPassword ? SHOWN_BEFORE : USED);
    if (isPassword && passwordOf(token, link, directory) === undefined) throw invalid();
    return { link, directory, account };
  }

  /** @returns whether the whole file was sent. */
  async function write(
    tx: Transaction<Tables>,
    link: Selectable<LinksTable>,
    { tag, size }: SentFile,
    progress: Progress,
  ): Promise<boolean> {
    const isSent = isWhole(progress.sent, size);
    const isUsed = isSent || isWhole([...progress.sent, ...Object.values(progress.sending)], size);
    const used_at = isUsed ? (link.used_at ?? clock.now()) : null;
    const pending = isUsed && !isSent ? 1 : 0;
    const values = { ...stored(progress, tag), used_at, pending } as const;
    await tx.updateTable('links').set(values).where('id', '=', link.id).execute();
    return isSent;
  }

  /** @returns whether this was the last part of the file. */
  async function finish(
    tx: Transaction<Tables>,
    linkId: string,
    { file, part, id }: Download,
    cutOffAfter: number | undefined,
  ): Promise<boolean> {
    const link = await tx.selectFrom('links').selectAll().where('id', '=', linkId).executeTakeFirst();
    const { sent, sending } = link ? progressOf(link, file.tag) : { sent: [], sending: {} };
    // Without it, the link was revoked, or it sends a newer version of the file by now.
    if (!link || !(id in sending)) return false;
    const others = Object.fromEntries(Object.entries(sending).filter(([each]) => each !== id));
    const now = cutOffAfter === undefined ? [part] : cutOff(part, cutOffAfter);
    const isSent = await write(tx, link, file, { sent: joined([...sent, ...now]), sending: others });
    return isSent && !isWhole(sent, file.size);
  }

  return {
    check: (visit) => admitted(database.reads, visit, false),
    async take(tx, visit) {
      const { link } = await admitted(tx, visit, true);
      if (link.once === 0) return undefined;
      await tx.updateTable('links').set({ used_at: clock.now() }).where('id', '=', link.id).execute();
      return link.id;
    },
    async begin(visit, { link: { once } }, file, part) {
      const id = randomUUID();
      if (once === 0) return { file, part, id };
      return database.db.transaction().execute(async (tx) => {
        const { link } = await admitted(tx, visit, true);
        const { sent, sending } = progressOf(link, file.tag);
        await write(tx, link, file, { sent, sending: { ...sending, [id]: part } });
        return { file, part, id };
      });
    },
    showPassword: (visit, request) =>
      refusingWhenFull(() =>
        database.db.transaction().execute(async (tx) => {
          const { link, directory } = await admitted(tx, visit, true);
          const password = passwordOf(visit.token, link, directory);
          if (password === undefined) throw invalid();
          const at = clock.now();
          await tx.updateTable('links').set({ used_at: at, password: null }).where('id', '=', link.id).execute();
          const target = { accountId: directory.account_id, actor: { keyId: BY_LINK, ...request } };
          const details = { address: { from: null, to: visit.address } };
          await insertAudit(tx, target, { action: 'open-link', at, directory, details });
          return password;
        }),
      ),
    end: ({ address }, { link, directory: { id } }, download, cutOffAfter) =>
      database.db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('directories').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
        const directory = await own.forNoKeyUpdate().executeTakeFirst();
        if (!directory) return;
        const isLast = link.once === 1 && (await finish(tx, link.id, download, cutOffAfter));
        const [start, end] = download.part;
        const bytes = cutOffAfter ?? end - start;
        if (bytes === 0 && end > start) return;
        const about = { path: pathOf(link.path), at: clock.now(), bytes, byLink: { address } };
        const isDone = cutOffAfter === undefined && (isLast || end === download.file.size);
        // A client that reads all but the last byte has the file as well.
        const reason = `bytes ${start} to ${start + bytes - 1} of ${download.file.size}`;
        const row = isDone
          ? historyRow(directory, { ...about, event: 'downloaded' })
          : historyRow(directory, { ...about, event: 'download-dropped', reason });
        await recordHistory(tx, [row], clock);
      }),
  };
}

/** Makes single-use links work again whose downloads a crash has cut off. */
export async function forgetCutOff({ db }: Pick<Database, 'db'>, node: string): Promise<void> {
  const here = db.selectFrom('directories').select('id').where('node', '=', node);
  await db
    .updateTable('links')
    .set({ used_at: null, pending: 0 })
    .where('pending', '=', 1)
    .where('directory_id', 'in', here)
    .execute();
  await db
    .updateTable('links')
    .set({ sending: null })
    .where('sending', 'is not', null)
    .where('directory_id', 'in', here)
    .execute();
}

function linkOf(db: Kysely<Tables>, token: string) {
  return db
    .selectFrom('links')
    .selectAll()
    .where('hash', '=', hashToken(token))
    .where(isOfKeyInForce)
    .executeTakeFirst();
}

async function nameOfLiveAccount(db: Kysely<Tables>, { account_id }: DirectoryRow): Promise<string | undefined> {
  const account = db.selectFrom('accounts').select('name').where('id', '=', account_id).where('deleted_at', 'is', null);
  return (await account.executeTakeFirst())?.name;
}

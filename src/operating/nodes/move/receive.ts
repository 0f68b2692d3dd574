/**
 * The part of a move on the destination node, before the directory is at home there: makes a folder for its files that no user can reach,
 * and removes it if the directory does not come.
 */
import { mkdirSync, readdirSync, readlinkSync, renameSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Tables } from '../../../foundation/db/schema.ts';
import { OperatorError } from '../../../foundation/base/errors.ts';
import { ensureFolder } from '../../../machine/sftp/files.ts';
import { pathsOf, prepareFolders } from '../../../machine/sftp/paths.ts';
import { isThere } from '../../../foundation/base/files.ts';
import { checkTarget } from './rehome.ts';
import type { Config } from '../../../foundation/base/config.ts';
import { rm } from 'node:fs/promises';

/**
 * Repeatable. Once the directory is at home here, the folder becomes its jail (`sftp/jail.ts`).
 * @returns the folder for its files.
 * @throws {OperatorError} when the directory cannot move here.
 */
export async function receive(db: Kysely<Tables>, config: Config, id: string): Promise<string> {
  const { node: here } = config;
  const paths = pathsOf(config);
  const directory = await db
    .selectFrom('directories')
    .select(['node', 'sftp_username'])
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) throw new OperatorError(`there is no directory ${id}`);
  if (directory.node === here) throw new OperatorError(`the directory is at home on ${here} already`);
  await checkTarget(db, { id, to: here });
  // An unknown jail, possibly from before the database was restored, would stay in the place of the arriving files.
  const jail = paths.jail(directory.sftp_username);
  if (isThere(jail)) throw new OperatorError(`${jail} is in the way: move it away`);
  prepareFolders(paths);
  ensureFolder(paths.arriving, 0o700);
  const folder = join(paths.arriving, id);
  const writer = processIn(folder);
  if (writer !== undefined)
    throw new OperatorError(`an earlier copy still runs here (process ${writer}): wait until it ends`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const now = Date.now() / 1000;
  utimesSync(folder, now, now);
  return join(folder, 'files');
}

/** A process whose working folder is that folder or below: rsync changes to the folder in which it writes. */
function processIn(folder: string): string | undefined {
  return readdirSync('/proc').find((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return `${readlinkSync(`/proc/${name}/cwd`)}/`.startsWith(`${folder}/`);
    } catch {
      return false; // it has ended
    }
  });
}

/** How long a move may be interrupted before its files are sent again from the start. The move itself may take days. */
const KEPT_MS = 7 * 24 * 3_600_000;

/** `berth node receive` sets the time of each folder. If a crash leaves one in the trash, the next start removes it. */
export async function removeAbandoned(reads: Kysely<Tables>, config: Config): Promise<void> {
  const paths = pathsOf(config);
  if (!isThere(paths.arriving)) return;
  for (const id of readdirSync(paths.arriving)) {
    const folder = join(paths.arriving, id);
    const { mtimeMs = Infinity } = statSync(folder, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs < KEPT_MS) continue;
    const own = await reads
      .selectFrom('directories')
      .select('id')
      .where('id', '=', id)
      .where('node', '=', config.node)
      .where('deleted_at', 'is', null)
      .executeTakeFirst();
    if (own) continue; // this folder is about to become its jail
    const discarded = join(paths.trash, `abandoned-${id}`);
    renameSync(folder, discarded);
    await rm(discarded, { recursive: true, force: true });
  }
}

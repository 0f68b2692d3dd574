/**
 * Recognizes the disk that the jails are on. An id is written among the jails and into the state folder. While the two
 * agree, the disk is the same as before. A mount point without its disk looks like an empty folder for jails: berth
 * would make empty jails there, write uploads to the wrong disk and record every file as removed.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import { lstatBeneath } from '../../foundation/base/beneath.ts';
import type { Config } from '../../foundation/base/config.ts';
import { inspect } from '../../foundation/db/inspect.ts';
import { isMissing, isPostgresUrl } from '../../foundation/base/database-place.ts';
import { pagesById } from '../../foundation/db/lists.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { BerthError, errorCode, errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { syncAll } from '../../foundation/base/files.ts';
import { isUsername } from '../../rules/directories/host.ts';
import { replaceFile } from './files.ts';
import { ownerOf, type Paths, pathsOf } from './paths.ts';

type DiskPaths = Pick<Paths, 'corner' | 'state' | 'diskId' | 'knownDiskId'>;

/** How long an answer of `jailDiskCheck` is reused. */
const CHECK_TTL_MS = 1000;

/** How many rows of files are read at once. */
const PAGE = 1000;

/** How many entries among the jails are looked up in the database, to tell the right disk from another. */
const ENTRIES = 200;

/** Thrown when a change needs the jails' disk, which is not mounted. */
export class JailDiskMissing extends BerthError {
  constructor() {
    super('home_unavailable', "The disk with this directory's files is not available");
  }
}

/** Whether the jails' disk is mounted. True before the first start. */
export function isJailDiskThere(paths: Pick<Paths, 'diskId' | 'knownDiskId'>): boolean {
  const known = idIn(paths.knownDiskId);
  return known === undefined || idIn(paths.diskId) === known;
}

/** Like `isJailDiskThere`, for callers that ask often: an answer is used for a second. */
export function jailDiskCheck(paths: Pick<Paths, 'diskId' | 'knownDiskId'>): () => boolean {
  let answer = true;
  let until = -Infinity;
  return () => {
    const now = performance.now();
    if (now >= until) {
      answer = isJailDiskThere(paths);
      until = now + CHECK_TTL_MS;
    }
    return answer;
  };
}

/**
 * Compares the disk with the state and the database. Writes nothing.
 * @returns the id for `claimJailDisk` to note on both sides; undefined when the database cannot say whose disk it is.
 * @throws {OperatorError} when the database has directories here and none of them is on this disk.
 */
export async function checkJailDisk(config: Config, { accept = false } = {}): Promise<string | undefined> {
  const paths = pathsOf(config);
  const known = idIn(paths.knownDiskId);
  const found = idIn(paths.diskId);
  // A copied disk gets an id of its own, so that it differs from the original.
  const isCopy = ownerOf(paths) === undefined;
  const id = found === undefined || isCopy ? randomUUID() : found;
  if (known === undefined ? accept : known === found) return id;
  if (accept) return randomUUID();
  if (isMissing(config.database)) return id;
  let counts: Counts;
  try {
    counts = await countsOf(config, paths.jails);
  } catch (error) {
    if (known !== undefined) throw refusal(config, `The database cannot be read: ${errorMessage(error)}.`);
    return undefined;
  }
  const { inDatabase, here } = counts;
  // Another id than the known one: for example, the mount point itself had jails before the disk was mounted there.
  const isOther = known !== undefined && found !== undefined && !isCopy;
  if (inDatabase === 0 || (here > 0 && !isOther)) return id;
  throw refusal(
    config,
    isOther ? 'What is there belongs to another disk.' : 'None of their jails is there.',
    inDatabase,
  );
}

/** Notes the disk as that of the jails. */
export async function claimJailDisk(paths: DiskPaths, id: string): Promise<void> {
  // The disk comes first: a state with an id that is on no disk would refuse the next start.
  for (const [file, folder] of [
    [paths.diskId, paths.corner],
    [paths.knownDiskId, paths.state],
  ] as const) {
    if (idIn(file) === id) continue;
    replaceFile(file, `${id}\n`, 0o644);
    await syncAll([file, folder]);
  }
}

interface Counts {
  /** How many live directories this node has. */
  readonly inDatabase: number;
  /** How many of the first entries among the jails belong to these directories. */
  readonly here: number;
}

/** The live directories of this node. */
function liveOf({ database, node }: Config, db: Kysely<Tables>) {
  const directories = db.selectFrom('directories').where('deleted_at', 'is', null);
  // An SQLite database from before nodes existed has no such column.
  return isPostgresUrl(database) ? directories.where('node', '=', node) : directories;
}

/** How many files berth knows, and how many of them are not on the disk that is mounted now. */
export async function filesNotHere(config: Config): Promise<{ readonly known: number; readonly missing: number }> {
  const { jail } = pathsOf(config);
  await using inspection = await inspect(config.database);
  const { db } = inspection;
  let known = 0;
  let missing = 0;
  for (const { id, sftp_username: username } of await liveOf(config, db).select(['id', 'sftp_username']).execute()) {
    const root = join(jail(username), 'files');
    const ofDirectory = db.selectFrom('files').select(['id', 'path']).where('directory_id', '=', id);
    const read = (after: string) => ofDirectory.where('id', '>', after).orderBy('id').limit(PAGE).execute();
    for await (const page of pagesById(read, new AbortController().signal)) {
      known += page.length;
      missing += page.filter(({ path }) => lstatBeneath(root, path) === undefined).length;
    }
  }
  return { known, missing };
}

async function countsOf(config: Config, jails: string): Promise<Counts> {
  await using inspection = await inspect(config.database);
  const live = (db: Kysely<Tables>) => liveOf(config, db);
  const all = await live(inspection.db)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  const names = entriesOf(jails).filter(isUsername).slice(0, ENTRIES);
  if (names.length === 0) return { inDatabase: all.count, here: 0 };
  const some = await live(inspection.db)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('sftp_username', 'in', names)
    .executeTakeFirstOrThrow();
  return { inDatabase: all.count, here: some.count };
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

function refusal({ jailDir }: Config, why: string, directories?: number): OperatorError {
  const counted =
    directories === undefined ? 'directories' : directories === 1 ? '1 directory' : `${directories} directories`;
  return new OperatorError(
    `${jailDir} is not the disk that the jails of ${counted} are on. ${why} Mount that disk, or copy the files back, and start again; to continue with the disk that is there: berth prepare --accept-disk, which says first how many files are not on it`,
  );
}

/** The id in a file; undefined when there is none or it cannot be read, since a failing disk counts as missing. */
function idIn(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

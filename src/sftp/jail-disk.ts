/**
 * Which disk the jails are on. An id is written among the jails and into the state folder; while the two agree, the disk is
 * the one that was there before. A mount point without its disk looks like an empty folder for jails: berth would
 * make empty jails there, take uploads onto the wrong disk and record every file as removed.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import { lookAt } from '../db/look.ts';
import { isMissing, isPostgresUrl } from '../db/place.ts';
import type { Tables } from '../db/schema.ts';
import { BerthError, errorCode, errorMessage, OperatorError } from '../errors.ts';
import { syncAll } from '../sync.ts';
import { isUsername } from '../directories/host.ts';
import { replaceFile } from './files.ts';
import { ownerOf, type Paths, pathsOf } from './paths.ts';

type DiskPaths = Pick<Paths, 'corner' | 'state' | 'diskId' | 'knownDiskId'>;

/** How long one answer of `jailDiskCheck` counts, in ms. */
const CHECK_TTL_MS = 1000;

/** Entries among the jails that are compared with the database, to tell a full disk from an empty one. */
const ENTRIES = 200;

/** What would be made or removed on the jails' disk waits until that is back. */
export class JailDiskMissing extends BerthError {
  constructor() {
    super('home_unavailable', "The disk with this directory's files is not available");
  }
}

/** Whether the disk among whose folders the jails are is still there. True before the first start. */
export function isJailDiskThere(paths: Pick<Paths, 'diskId' | 'knownDiskId'>): boolean {
  const known = idIn(paths.knownDiskId);
  return known === undefined || idIn(paths.diskId) === known;
}

/** The same for callers that ask often: an answer counts for a second. */
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
 * Compares the disk with what the state and the database know of it. Nothing is written.
 * @returns the id that `claimJailDisk` notes on both sides; undefined when the database cannot say whose disk it is.
 * @throws {OperatorError} when the database has directories here and this disk has none of them.
 */
export async function checkJailDisk(config: Config, { acceptEmpty = false } = {}): Promise<string | undefined> {
  const paths = pathsOf(config);
  const known = idIn(paths.knownDiskId);
  const found = idIn(paths.diskId);
  // A copy gets an id of its own, so that the disk it was made from is told apart.
  const isCopy = ownerOf(paths) === undefined;
  const id = found === undefined || isCopy ? randomUUID() : found;
  if (known === undefined ? acceptEmpty : known === found) return id;
  if (acceptEmpty) return randomUUID();
  if (isMissing(config.database)) return id;
  let counts: Counts;
  try {
    counts = await countsOf(config, paths.jails);
  } catch (error) {
    if (known !== undefined) throw refusal(config, `The database cannot say more: ${errorMessage(error)}.`);
    return undefined;
  }
  const { inDatabase, here } = counts;
  // A mount point that had jails before the disk was mounted there, say: the id on it is its own, and not the known one.
  const isOther = known !== undefined && found !== undefined && !isCopy;
  if (inDatabase === 0 || (here > 0 && !isOther)) return id;
  throw refusal(
    config,
    isOther ? 'What is there belongs to another disk.' : 'None of their jails is there.',
    inDatabase,
  );
}

/** Notes the disk as the jails' one. */
export async function claimJailDisk(paths: DiskPaths, id: string): Promise<void> {
  // The disk first: a state that knows an id without a disk would refuse the next start.
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
  /** Live directories at home here. */
  readonly inDatabase: number;
  /** Of those, how many of the first entries among the jails belong to. */
  readonly here: number;
}

async function countsOf(config: Config, jails: string): Promise<Counts> {
  await using look = await lookAt(config.database);
  const live = (db: Kysely<Tables>) => {
    const directories = db.selectFrom('directories').where('deleted_at', 'is', null);
    // An SQLite database from before there were nodes has no such column.
    return isPostgresUrl(config.database) ? directories.where('node', '=', config.node) : directories;
  };
  const all = await live(look.db)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  const names = entriesOf(jails).filter(isUsername).slice(0, ENTRIES);
  if (names.length === 0) return { inDatabase: all.count, here: 0 };
  const some = await live(look.db)
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
    `${jailDir} is not the disk that the jails of ${counted} are on. ${why} Mount that disk, or copy the files back, and start again; to go on with an empty disk, which counts every file as removed: berth prepare --accept-empty-disk`,
  );
}

/** Undefined when there is none, or it cannot be read: a disk that fails is as good as gone. */
function idIn(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

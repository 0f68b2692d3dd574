/**
 * Hosts every directory, wherever it is at home: this machine applies changes of its own directories, and sends a request to
 * the home of any other.
 *
 * Promise: an earlier change of a directory never undoes a later one here. Changes made on other nodes arrive by another
 * path than this node's own, so they may arrive out of commit order.
 */
import type { Kysely } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Tables } from '../../foundation/db/schema.ts';
import type { DirectoryHost, Version } from '../../rules/directories/host.ts';
import type { MoveLock } from './move/move-lock.ts';
import type { Requests } from './requests.ts';
import type { Tombstones } from './leftovers.ts';
import type { Ground } from '../../foundation/context.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';

const LOST_DELETION =
  'a directory that was deleted on this node is in the database again, which has lost the deletion: nobody can log in to it; delete ' +
  'it again (docs/many-machines.md)';

/** What a node has besides the ground. */
interface NodeParts {
  /** The host of this machine. */
  readonly local: DirectoryHost;
  readonly requests: Requests;
  readonly tombstones: Tombstones;
  /** Keeps a directory closed while it leaves. */
  readonly moveLock: MoveLock;
}

export interface HostOfAll extends DirectoryHost {
  /** Forgets all versions: a database that has lost its last commits gives out their numbers again. */
  forget(): void;
  /** From that version on, the directory is at home elsewhere. */
  departed(version: Version): void;
}

export function hostOfAll(
  { config, database, clock, log }: Ground,
  { local, requests, tombstones, moveLock }: NodeParts,
): HostOfAll {
  const { node: here } = config;
  const { reads } = database;
  /** The latest versions of directories that are at home here. */
  const latest = new LRUCache<string, number>({ max: 10_000 });

  /** Applies a change, unless a later version came first. */
  async function inOrder({ id, version }: Version, follow: () => Promise<void>): Promise<void> {
    const before = latest.get(id);
    if (before !== undefined && before > version) return;
    latest.set(id, version);
    try {
      await follow();
    } catch (error) {
      if (latest.get(id) === version) latest.delete(id);
      throw error;
    }
  }

  return {
    ...local,
    async apply(directory, isNew = false) {
      if (directory.node !== here) return requests.send(directory, isNew);
      moveLock.pass(directory.id);
      if (!tombstones.has(directory.sftp_username)) {
        await inOrder(directory, () => local.apply(directory));
        // The node that set the expiry cannot end sessions here.
        if (directory.expires_at !== null && directory.expires_at <= clock.now()) await local.endSessions(directory);
        return;
      }
      await local.blockLogins(directory);
      log.error({ directory_id: directory.id, username: directory.sftp_username }, LOST_DELETION);
    },
    quotaObstacle: async (directory) =>
      directory.node === here ? local.quotaObstacle(directory) : quotaObstacleOf(reads, directory.node),
    isApplied: (directory) =>
      !tombstones.has(directory.sftp_username) && !moveLock.isShut(directory.id) && local.isApplied(directory),
    async remove(directory, isNew = false) {
      if (directory.node !== here) return requests.send(directory, isNew);
      await inOrder(directory, () => local.remove(directory));
      await tombstones.add(directory.sftp_username);
    },
    // On other nodes these follow from the change itself.
    async blockLogins(directory) {
      if (directory.node === here) await local.blockLogins(directory);
    },
    async endSessions(directory) {
      if (directory.node === here) await local.endSessions(directory);
    },
    forget: () => latest.clear(),
    departed: ({ id, version }) => void latest.set(id, version),
  };
}

/** Records whether quotas can be set on a node, which only its own kernel knows, when the node joins. */
export async function recordQuotaObstacle(
  db: Kysely<Tables>,
  node: string,
  obstacle: string | undefined,
): Promise<void> {
  await db
    .updateTable('nodes')
    .set({ quota_obstacle: obstacle ?? null })
    .where('name', '=', node)
    .execute();
}

/** The obstacle that the node has recorded, with the node's name; undefined for none. */
async function quotaObstacleOf(reads: Kysely<Tables>, node: string): Promise<string | undefined> {
  const row = await reads.selectFrom('nodes').select('quota_obstacle').where('name', '=', node).executeTakeFirst();
  return row?.quota_obstacle ? `${row.quota_obstacle} (on the node ${node})` : undefined;
}

// File operations, for directories that are at home here. The files of others are on other machines, which nodes do not
// contact.

export function filesHere({ config, database }: Ground, moveLock: MoveLock, own: DirectoryFiles): DirectoryFiles {
  /** @throws {BerthError} `home_elsewhere`. */
  async function check({ id }: { readonly id: string }): Promise<void> {
    const found = await database.reads
      .selectFrom('directories as d')
      .leftJoin('nodes as n', 'n.name', 'd.node')
      .select(['d.node', 'd.sftp_host', 'n.api_url'])
      .where('d.id', '=', id)
      .executeTakeFirst();
    if (!found || found.node === config.node) return;
    const { node, sftp_host, api_url } = found;
    const to = api_url ?? `berth on ${sftp_host}`;
    throw new BerthError('home_elsewhere', `The files of this directory are on ${node}: send this request to ${to}`);
  }

  type Operation<Of, About extends readonly unknown[], Result> = (of: Of, ...about: About) => Promise<Result>;

  function reading<Of extends { readonly id: string }, About extends readonly unknown[], Result>(
    read: Operation<Of, About, Result>,
  ): Operation<Of, About, Result> {
    return async (of, ...about) => {
      await check(of);
      return read(of, ...about);
    };
  }

  /** Also refuses while the directory moves. */
  function changing<Of extends { readonly id: string }, About extends readonly unknown[], Result>(
    change: Operation<Of, About, Result>,
  ): Operation<Of, About, Result> {
    return (of, ...about) => moveLock.through(of.id, () => reading(change)(of, ...about));
  }

  return {
    checkHome: check,
    content: reading(own.content),
    contentAt: reading(own.contentAt),
    remove: changing(own.remove),
    removeAt: changing(own.removeAt),
    removePartial: changing(own.removePartial),
    removeChecking: changing(own.removeChecking),
    announcePartial: changing(own.announcePartial),
    place: changing(own.place),
  };
}
